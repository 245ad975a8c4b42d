/** A real cache, driven at random as a worker drives it: its events and its tree are the truth. */
import { IntList } from "#base";
import {
  BlockTable,
  KvCache,
  type KvCacheShape,
  type KvSnapshot,
  type NumberedKvEvent,
  scopeKey,
} from "#kvcache";

const BLOCK_TOKENS = 4;
const VOCABULARY = 50_000;
const LIVE_MAX = 4;
const PROMPTS_KEPT = 30;

interface Live {
  readonly table: BlockTable;
  readonly tokens: IntList;
  /** Tokens whose keys and values exist. */
  computed: number;
}

/** Which requests come. */
export interface HistoryKinds {
  readonly adapters: boolean;
  readonly salts: boolean;
}

export class CacheHistory {
  readonly blockTokens = BLOCK_TOKENS;
  readonly #cache: KvCache;
  /** Texts that prompts begin with. */
  readonly #heads: readonly (readonly number[])[];
  readonly #live: Live[] = [];
  readonly #prompts: (readonly number[])[] = [];
  #state: number;

  readonly #kinds: HistoryKinds;

  constructor(seed: number, shape: Partial<KvCacheShape> = {}, kinds: Partial<HistoryKinds> = {}) {
    this.#state = seed;
    this.#kinds = { adapters: true, salts: true, ...kinds };
    this.#cache = new KvCache({
      blocks: 160,
      blockTokens: BLOCK_TOKENS,
      hostBlocks: 80,
      events: "v1_block_key",
      ...shape,
    });
    this.#heads = Array.from({ length: 12 }, () => this.#tokens(8 + this.#below(40)));
  }

  /** One request begins, goes on or ends; what that changed. */
  step(): readonly NumberedKvEvent[] {
    const kind = this.#below(10);
    if (this.#live.length === 0 || (kind < 4 && this.#live.length < LIVE_MAX)) this.#begin();
    else if (kind < 7) this.#grow(this.#any());
    else this.#end(this.#any());
    if (this.#below(3000) === 0) this.#clear();
    this.#cache.takeMoves();
    return this.#cache.takeEvents();
  }

  /** A prompt as they come: a known beginning, perhaps what followed it once, and an end. */
  prompt(): readonly number[] {
    const before = this.#prompts[this.#below(this.#prompts.length)] ?? [];
    return [
      ...before.slice(0, 1 + this.#below(before.length)),
      ...this.#tokens(1 + this.#below(6)),
    ];
  }

  /** Leading tokens of a prompt that are stored in full blocks; nothing changes. */
  cachedTokens(prompt: readonly number[]): number {
    const { tokens } = this.#cache.match("", Int32Array.from(prompt), null);
    return tokens - (tokens % BLOCK_TOKENS);
  }

  snapshot(): KvSnapshot {
    const snapshot = this.#cache.snapshot();
    if (snapshot === null) throw new Error("The cache has events");
    return snapshot;
  }

  #begin(): void {
    const head = this.#heads[this.#below(this.#heads.length)] ?? [];
    const salted = this.#below(6) === 0 && this.#kinds.salts;
    const loraId = this.#below(6) === 0 && this.#kinds.adapters ? this.#below(2) : null;
    const scope = scopeKey({ loraId, cacheSalt: salted ? `salt ${this.#below(3)}` : null });
    const tokens = new IntList([...head, ...this.#tokens(1 + this.#below(30))]);
    this.#prompts.push(Array.from(tokens.view()));
    if (this.#prompts.length > PROMPTS_KEPT) this.#prompts.shift();
    const table = new BlockTable(scope, null);
    const match = this.#cache.match(scope, tokens.view(), null);
    this.#cache.adopt(table, match);
    const one = { table, tokens, computed: match.tokens };
    this.#live.push(one);
    if (this.#hasRoom(one)) this.#publish(one);
    else this.#end(one);
  }

  #grow(one: Live): void {
    for (const token of this.#tokens(1 + this.#below(12))) one.tokens.push(token);
    if (this.#hasRoom(one)) this.#publish(one);
    else this.#end(one);
  }

  #end(one: Live): void {
    const { table, tokens, computed } = one;
    this.#live.splice(this.#live.indexOf(one), 1);
    this.#cache.release(table, { tokens, computed });
  }

  #publish(one: Live): void {
    one.computed = one.tokens.length - 1;
    this.#cache.publish(one.table, one.tokens, one.computed);
  }

  #hasRoom({ table, tokens, computed }: Live): boolean {
    if (!this.#cache.makeWritable(table, computed)) return false;
    return this.#cache.allocate(table, this.#cache.blocksFor(tokens.length) - table.length);
  }

  #clear(): void {
    for (const one of [...this.#live]) this.#end(one);
    this.#cache.reset();
  }

  #any(): Live {
    const one = this.#live[this.#below(this.#live.length)];
    if (one === undefined) throw new Error("Nothing is live");
    return one;
  }

  #tokens(count: number): number[] {
    return Array.from({ length: count }, () => this.#below(VOCABULARY));
  }

  #below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * limit);
  }
}
