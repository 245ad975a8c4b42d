/**
 * The index's own names of blocks: a keyed hash over the scope and all tokens up to the block's
 * end, so that equal contents of all workers meet in one place, whatever the workers call them.
 *
 * The hash is HalfSipHash (J.-P. Aumasson and D. J. Bernstein 2012, "SipHash: a fast short-input
 * PRF", in its form of 32-bit words) with one round per word and three at the end, 64 bits out, and
 * all 128 bits of its first state secret. Names are compared and tokens are not kept: who could
 * make two contents meet would misguide requests, though never change an answer, since workers
 * compare for themselves. A keyed hash whose outputs are never shown leaves guessing alone: of 10^7
 * blocks, chosen by whomever, two meet with a probability of 3e-6. Keys are made anew with each
 * process, so names mean nothing outside it.
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
  readonly #secret: HashSecret;
  readonly #roots = new Map<string, Uint32Array>();
  /** The scope that was named last, and its name: most runs have the scope of the one before. */
  #lastScope: KvScope | null = null;
  #lastRoot: Uint32Array = new Uint32Array(2);

  constructor(secret: HashSecret = randomSecret()) {
    this.#secret = secret;
  }

  get secret(): HashSecret {
    return this.#secret;
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
    if (blocks === 0) return;
    const blockTokens = tokens.length / blocks;
    keys[0] = parent[0]!;
    keys[1] = parent[1]!;
    for (let block = 0; block < blocks; block++) {
      // The parent's name is copied to where the block's own is to be.
      if (block > 0) keys.copyWithin(block * 2, block * 2 - 2, block * 2);
      this.#hash(tokens, block * blockTokens, blockTokens, keys, block * 2);
    }
  }

  #rootOfText(text: string): Uint32Array {
    const units = Uint32Array.from({ length: text.length }, (_, at) => text.charCodeAt(at));
    const root = new Uint32Array([units.length, ROOT_MARK]);
    this.#hash(units, 0, units.length, root, 0);
    return root;
  }

  /** Replaces the name at `out` by the hash of it and `count` words. */
  #hash(words: Uint32Array, from: number, count: number, out: Uint32Array, at: number): void {
    let [v0, v1, v2, v3] = this.#secret as [number, number, number, number];
    // Two words of the name before, then the tokens, then the rounds of the end.
    const end = from + count;
    let word = out[at]!;
    for (let next = from - 2; ; next++) {
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
      if (next + 1 >= end) break;
      word = next + 1 < from ? out[at + 1]! : words[next + 1]!;
    }
    v2 ^= 0xee;
    for (let round = 0; round < 6; round++) {
      if (round === 3) {
        out[at] = v1 ^ v3;
        v1 ^= 0xdd;
      }
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
    out[at + 1] = v1 ^ v3;
  }
}

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
