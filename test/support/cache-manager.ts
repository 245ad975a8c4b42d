/**
 * Drives the cache as TensorRT-LLM's tests drive their manager: sequences are added with their
 * whole prompt, get tokens one by one, and store what is computed when they are removed. The last
 * token of a sequence is never computed.
 */
import { IntList } from "#base";
import {
  type BlockId,
  type BlockRetention,
  BlockTable,
  type CacheLevel,
  type ContentKeys,
  decodeRetention,
  KvCache,
  type KvCacheShape,
  type KvEvent,
  promptRetention,
  type RetentionConfig,
  scopeKey,
} from "#kvcache";

/** What a sequence may say beside its tokens. */
export interface ManagedOptions {
  readonly keys?: ContentKeys;
  readonly retention?: RetentionConfig;
  readonly loraId?: number;
  readonly salt?: string;
}

/** A live sequence. */
export interface Managed {
  readonly table: BlockTable;
  readonly tokens: IntList;
  /** Tokens that came from the cache: TensorRT-LLM's prepopulated length. */
  readonly cached: number;
  readonly decode: BlockRetention | null;
}

/** Integers from `start` up to and including `end`. */
export const range = (start: number, end: number): number[] =>
  Array.from({ length: end - start + 1 }, (_, index) => start + index);

/** Retention of one priority for a prompt and for what follows. */
export const worth = (
  priority: number,
  options: { readonly durationMs?: number; readonly decode?: Partial<BlockRetention> } = {},
): RetentionConfig => ({
  ranges: [{ start: 0, end: null, priority, durationMs: options.durationMs ?? null }],
  decodePriority: options.decode?.priority ?? 35,
  decodeDurationMs: options.decode?.durationMs ?? null,
});

/** A cache and the sequences in it; the books are audited after each call. */
export class CacheManager {
  readonly cache: KvCache;
  readonly #live = new Set<Managed>();

  constructor(shape: KvCacheShape) {
    this.cache = new KvCache(shape);
  }

  /** Blocks without a holder. */
  get free(): number {
    return this.cache.availableBlocks;
  }

  /** A sequence with blocks for all its tokens; throws where there are too few. */
  add(prompt: readonly number[], options: ManagedOptions = {}): Managed {
    const {
      keys = null,
      retention,
      loraId = null,
      salt = null,
    } = {
      ...options,
      keys: options.keys ?? null,
    };
    const table = new BlockTable(scopeKey({ loraId, cacheSalt: salt }), keys);
    const tokens = new IntList(prompt);
    const match = this.cache.match(table.scope, tokens.view(), keys);
    this.cache.adopt(table, match);
    const decode = retention === undefined ? null : decodeRetention(retention);
    const sequence = { table, tokens, cached: match.tokens, decode };
    this.#live.add(sequence);
    this.#grow(sequence);
    if (retention !== undefined) {
      const said = promptRetention(retention, prompt.length, this.cache.blockTokens);
      for (const [index, one] of said.entries()) this.cache.setRetention(table, index, one);
    }
    this.#audit();
    return sequence;
  }

  /** The full blocks of what is computed can be found from now on. */
  store({ table, tokens }: Managed): void {
    this.cache.publish(table, tokens, tokens.length - 1);
    this.#audit();
  }

  /** Draws tokens: each but the last is computed, and what they fill can be found. */
  push(sequence: Managed, ...drawn: readonly number[]): void {
    for (const token of drawn) {
      sequence.tokens.push(token);
      const before = sequence.table.length;
      this.#grow(sequence);
      for (let index = before; index < sequence.table.length; index++) {
        if (sequence.decode === null) continue;
        this.cache.setRetention(sequence.table, index, sequence.decode);
      }
      this.store(sequence);
      this.cache.dropLeading(sequence.table, sequence.tokens.length - 1);
    }
    this.#audit();
  }

  /** The sequence ends: what is computed of `stored` leading tokens stays, all by default. */
  remove(sequence: Managed, stored: number = sequence.tokens.length): void {
    const { table, tokens } = sequence;
    const computed = Math.min(stored, tokens.length - 1);
    this.#live.delete(sequence);
    if (!table.swapped) this.cache.publish(table, tokens, computed);
    this.cache.release(table, { tokens, computed });
    this.#audit();
  }

  /** Another sequence with the same tokens and blocks. */
  fork(parent: Managed): Managed {
    const table = new BlockTable(parent.table.scope, parent.table.keys);
    this.cache.fork(parent.table, table);
    const child = { ...parent, table, tokens: new IntList(parent.tokens.view()) };
    this.#live.add(child);
    return child;
  }

  /** Adds a sequence and removes it; how many of its tokens came from the cache. */
  pass(prompt: readonly number[], options: ManagedOptions = {}): number {
    const sequence = this.add(prompt, options);
    this.remove(sequence);
    return sequence.cached;
  }

  /** Leading tokens that are stored; nothing changes. */
  stored(prompt: readonly number[]): number {
    return this.cache.match("", Int32Array.from([...prompt, -1])).tokens;
  }

  /** Where a sequence's blocks are. */
  levels({ table }: Managed): readonly CacheLevel[] {
    return [...table.view()].map((_, index) => this.cache.levelOf(table.get(index)));
  }

  /** Blocks that a table still holds. */
  held({ table }: Managed): readonly BlockId[] {
    const places = [...table.view()].map((_, index) => index);
    return places.filter((index) => table.holds(index)).map((index) => table.get(index));
  }

  /** What was told since the last call. */
  events(): readonly KvEvent[] {
    return this.cache.takeEvents().map(({ event }) => event);
  }

  #grow({ table, tokens }: Managed): void {
    if (!this.cache.makeWritable(table, tokens.length - 1)) throw new Error("No free block");
    const missing = this.cache.blocksFor(tokens.length) - table.length;
    if (!this.cache.allocate(table, missing)) throw new Error("No free block");
  }

  #audit(): void {
    this.cache.audit([...this.#live].map(({ table }) => table));
  }
}
