/**
 * The index's own names of blocks: a keyed hash over the scope and all tokens up to the block's
 * end, so that equal contents of all workers meet in one place, whatever the workers call them.
 *
 * The hash has the rounds of HalfSipHash (J.-P. Aumasson and D. J. Bernstein 2012, "SipHash: a
 * fast short-input PRF", in its form of 32-bit words): one per token and four at the end, as in
 * the variant that hash tables use. All 128 bits of its first state are secret, 64 come out. Tokens
 * are not kept: to make two contents meet would misguide requests, though never change an answer,
 * since workers compare for themselves. A keyed hash whose outputs are never shown leaves guessing
 * alone: among 10^7 blocks, whatever their tokens, two meet with a probability of 3e-6. The secret
 * is made anew with each process, so names mean nothing outside it.
 */
import { randomFillSync } from "node:crypto";
import { EngineError } from "#base";
import type { KvScope, PromptBlocks } from "#cluster/protocol";

/** 128 random bits. */
export type HashSecret = readonly [number, number, number, number];

/** A secret of this process alone. */
export function randomSecret(): HashSecret {
  const [a = 0, b = 0, c = 0, d = 0] = randomFillSync(new Uint32Array(4));
  return [a, b, c, d];
}

/** Scopes whose names are remembered; beyond it all are forgotten, and computed again. */
const SCOPES_MAX = 4096;
/** Longest text of a scope that is remembered: strangers choose them. */
const SCOPE_TEXT_MAX = 4096;

/** Names blocks. Those who ask an index must have the index's namer, or one of the same secret. */
export class BlockNamer {
  readonly #key0: number;
  readonly #key1: number;
  readonly #key2: number;
  readonly #key3: number;
  readonly #roots = new Map<string, Uint32Array>();
  /** The scope that was named last, and its name: most runs have the scope of the one before. */
  #lastScope: KvScope | null = null;
  #lastRoot: Uint32Array = new Uint32Array(2);

  constructor(secret: HashSecret = randomSecret()) {
    const [key0, key1, key2, key3] = secret;
    this.#key0 = key0 | 0;
    this.#key1 = key1 | 0;
    this.#key2 = key2 | 0;
    this.#key3 = key3 | 0;
  }

  get secret(): HashSecret {
    return [this.#key0, this.#key1, this.#key2, this.#key3];
  }

  /** The name that stands before a scope's first blocks. */
  rootOf(scope: KvScope): Uint32Array {
    if (scope === this.#lastScope) return this.#lastRoot;
    const { model, blockTokens, salt, lora, group } = scope;
    const text = JSON.stringify([model, blockTokens, salt, lora, group]);
    let root = this.#roots.get(text);
    if (root === undefined) {
      root = this.#rootOfText(text);
      if (this.#roots.size === SCOPES_MAX) this.#roots.clear();
      if (text.length <= SCOPE_TEXT_MAX) this.#roots.set(text, root);
    }
    this.#lastScope = scope;
    this.#lastRoot = root;
    return root;
  }

  /**
   * Cuts and names a prompt; the last block is left out where it is not full. `known` names a
   * beginning of the same tokens in the same scope, and spares naming it again.
   */
  blocksOf(scope: KvScope, tokens: Uint32Array, known?: PromptBlocks): PromptBlocks {
    const { blockTokens } = scope;
    if (!isBlockSize(blockTokens)) throw badBlockSize(blockTokens);
    const blocks = Math.floor(tokens.length / blockTokens);
    const keys = new Uint32Array(blocks * 2);
    const from = Math.min(blocks, known === undefined ? 0 : known.keys.length >>> 1);
    if (known !== undefined) keys.set(known.keys.subarray(0, from * 2));
    const parent = from === 0 ? this.rootOf(scope) : keys.subarray(from * 2 - 2, from * 2);
    const rest = tokens.subarray(from * blockTokens, blocks * blockTokens);
    this.nameRun(parent, rest, keys.subarray(from * 2));
    return { scope, keys };
  }

  /** Names a run of full blocks into `keys`, each the parent of the next. */
  nameRun(parent: Uint32Array, tokens: Uint32Array, keys: Uint32Array): void {
    const blocks = keys.length >>> 1;
    const blockTokens = tokens.length / blocks;
    let low = parent[0]!;
    let high = parent[1]!;
    for (let block = 0; block < blocks; block++) {
      const from = block * blockTokens;
      this.#hash(low, high, tokens, from, from + blockTokens);
      low = keys[block * 2] = this.#low;
      high = keys[block * 2 + 1] = this.#high;
    }
  }

  #rootOfText(text: string): Uint32Array {
    const units = Uint32Array.from({ length: text.length }, (_, at) => text.charCodeAt(at));
    this.#hash(units.length, ROOT_MARK, units, 0, units.length);
    return Uint32Array.of(this.#low, this.#high);
  }

  /** Of the last hash. */
  #low = 0;
  #high = 0;

  /** The hash of a name and of the words behind it, into `#low` and `#high`. */
  #hash(low: number, high: number, words: Uint32Array, from: number, end: number): void {
    // Names are secret themselves, so the one before may be a part of the first state.
    let v0 = this.#key0 ^ low;
    let v1 = this.#key1;
    let v2 = this.#key2 ^ high;
    let v3 = this.#key3;
    for (let at = from; at < end; at++) {
      const word = words[at]! | 0;
      v3 ^= word;
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
      v0 ^= word;
    }
    v2 ^= 0xee;
    for (let round = 0; round < END_ROUNDS; round++) {
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
    }
    // Tables have 0 for what is not there.
    this.#low = (v1 ^ v3) >>> 0 || 1;
    this.#high = (v0 ^ v2) >>> 0;
  }
}

/** Rounds after the last token. */
const END_ROUNDS = 4;
/** In place of a name's high half before a scope's text. */
const ROOT_MARK = 0x726f6f74;
/** Most tokens of a block. */
const BLOCK_TOKENS_MAX = 65_536;

/** Whether blocks can have this many tokens. */
export function isBlockSize(tokens: number): boolean {
  return Number.isInteger(tokens) && tokens >= 1 && tokens <= BLOCK_TOKENS_MAX;
}

function badBlockSize(blockTokens: number): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot cut a prompt: blocks must have 1 to ${BLOCK_TOKENS_MAX} tokens, current value is ` +
      `${blockTokens}`,
  );
}
