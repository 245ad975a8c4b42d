/**
 * Blocks that workers are thought to have, since they were sent there lately: a level of their own
 * in the nodes, so that they continue what is known for sure.
 */
import type { Clock } from "#base";
import type { PromptBlocks, WorkerNumber } from "#cluster/protocol";
import { BlockBook, type Partner } from "./block-book.ts";
import { ByteBudget } from "./byte-budget.ts";
import type { IndexTables } from "./index-tables.ts";
import { GUESSED, WORKERS_MAX } from "./member-sets.ts";

export interface GuessesOptions {
  readonly tables: IndexTables;
  readonly clock: Clock;
  /** How long a guess holds after the last request that was its reason. */
  readonly ttlMs: number;
  /** Of who has been sent what, beside the tables. */
  readonly bytesMax: number;
  readonly workerBlocksMax: number;
  /** Gives up blocks where the tables have no room. */
  readonly partner?: Partner;
  /** See `BlockBookOptions`. */
  readonly retired?: ReadonlySet<WorkerNumber>;
}

export interface GuessStats {
  readonly bytes: number;
  readonly bytesMax: number;
  /** Blocks of workers. */
  readonly memberships: number;
  /** Given up for want of room; ended by age; ended by what the worker announced. */
  readonly evicted: number;
  readonly expired: number;
  readonly told: number;
}

export class Guesses {
  readonly #tables: IndexTables;
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #ttlMs: number;
  readonly #budget: ByteBudget;
  readonly #book: BlockBook;
  /** Before this time nothing expires. */
  #nextExpiryMs = Number.POSITIVE_INFINITY;
  #expired = 0;
  #told = 0;

  constructor(options: GuessesOptions) {
    const { tables, clock, ttlMs, bytesMax, workerBlocksMax, partner } = options;
    this.#tables = tables;
    this.#clock = clock;
    this.#startMs = clock.nowMs();
    this.#ttlMs = ttlMs;
    this.#budget = new ByteBudget(bytesMax);
    this.#book = new BlockBook({
      ...{ nodes: tables.nodes, budget: this.#budget, workerBlocksMax },
      ...{ firstLevel: GUESSED, sparesFound: false },
      ...(partner === undefined ? {} : { partner }),
      ...(options.retired === undefined ? {} : { retired: options.retired }),
    });
  }

  /** From now on, and for the time to live, the worker is thought to have these blocks. */
  routed(worker: WorkerNumber, { keys }: PromptBlocks): void {
    const nowMs = this.advance();
    this.#tables.admit(worker);
    for (let at = 0; at < keys.length; at += 2) {
      const id = this.#book.holdings.find(worker, keys[at]!, keys[at + 1]!);
      if (id >= 0) this.#book.holdings.renew(worker, id, this.#book.now);
      else this.#book.announce(worker, keys, at, keys, at, 0);
    }
    this.#nextExpiryMs = Math.min(this.#nextExpiryMs, nowMs + this.#ttlMs);
  }

  /** The worker has told of these blocks itself: nothing is guessed of them. */
  told(worker: WorkerNumber, keys: Uint32Array): void {
    if (this.#book.holdings.countOf(worker) === 0) return;
    for (let at = 0; at < keys.length; at += 2) {
      const id = this.#book.holdings.find(worker, keys[at]!, keys[at + 1]!);
      if (id < 0) continue;
      this.#book.drop(worker, id);
      this.#told++;
    }
  }

  reset(worker: WorkerNumber): void {
    this.#book.clear(worker, null);
  }

  /** Blocks that the worker is thought to have. */
  countOf(worker: WorkerNumber): number {
    return this.#book.holdings.countOf(worker);
  }

  /** Forgets at most so many of them; how many it had. */
  clearSome(worker: WorkerNumber, most: number): number {
    return this.#book.clearSome(worker, most);
  }

  /** Ends what is too old; the time in milliseconds since the start. Before each look-up. */
  advance(): number {
    const nowMs = Math.floor(this.#clock.nowMs() - this.#startMs);
    this.#book.now = nowMs >>> 0;
    if (nowMs >= this.#nextExpiryMs) this.#expire(nowMs);
    return nowMs;
  }

  stats(): GuessStats {
    this.advance();
    return {
      bytes: this.#budget.bytes,
      bytesMax: this.#budget.bytesMax,
      memberships: this.#book.holdings.count,
      evicted: this.#book.evicted,
      expired: this.#expired,
      told: this.#told,
    };
  }

  #expire(nowMs: number): void {
    const { holdings } = this.#book;
    this.#nextExpiryMs = Number.POSITIVE_INFINITY;
    for (let worker = 0; worker < WORKERS_MAX; worker++) {
      for (let id = holdings.oldestOf(worker); id >= 0; id = holdings.oldestOf(worker)) {
        const endMs = nowMs - ((nowMs - holdings.seenAt(id)) >>> 0) + this.#ttlMs;
        if (nowMs < endMs) {
          this.#nextExpiryMs = Math.min(this.#nextExpiryMs, endMs);
          break;
        }
        this.#book.drop(worker, id);
        this.#expired++;
      }
    }
  }
}
