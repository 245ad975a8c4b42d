/**
 * One index of a whole fleet: exact for workers that announce their blocks, approximate for those
 * that do not, and with what was just sent to either in view at once. Without the last, a burst of
 * equal prompts would be spread over the fleet, since it comes before the first event.
 */
import type { Clock } from "#base";
import type {
  GroupBlocks,
  KvChange,
  KvScope,
  PrefixLookup,
  PrefixMatch,
  PromptBlocks,
  WorkerNumber,
} from "#cluster/protocol";
import { BlockNamer } from "./block-namer.ts";
import { Guesses, type GuessStats } from "./guesses.ts";
import { IndexTables } from "./index-tables.ts";
import { KvIndex, type KvIndexStats } from "./kv-index.ts";
import { WORKERS_MAX } from "./member-sets.ts";
import { WorkerNumbers } from "./worker-numbers.ts";
import { WorkerSlots } from "./worker-slots.ts";

/** Blocks of workers that are gone that one call of `apply` gives back, some 0.1 ms. */
const RECLAIMED_AT_ONCE = 256;

export interface FleetIndexOptions {
  readonly clock: Clock;
  /** Most bytes of all tables: three quarters are for what is announced. Default 1 GiB. */
  readonly bytesMax?: number;
  /** Most blocks of one worker, announced and guessed ones each. */
  readonly workerBlocksMax?: number;
  /** How long a worker that announces nothing is thought to have a prompt. Default 120 s. */
  readonly ttlMs?: number;
  /** How long another is, where its own events do not come. Default 5 s. */
  readonly predictedTtlMs?: number;
  readonly namer?: BlockNamer;
  /** Told of announced blocks, low and high halves of the index's names; a view for the call. */
  readonly onStored?: (worker: WorkerNumber, keys: Uint32Array) => void;
}

export interface FleetIndexStats {
  readonly exact: KvIndexStats;
  readonly approximate: GuessStats;
  readonly predicted: GuessStats;
  /** Blocks of workers that are gone, still to be given back: they are found no more. */
  readonly reclaiming: number;
}

export class FleetIndex implements PrefixLookup {
  readonly namer: BlockNamer;
  readonly #tables: IndexTables;
  readonly #exact: KvIndex;
  /** Of workers that announce nothing, and of the others. */
  readonly #approximate: Guesses;
  readonly #predicted: Guesses;
  readonly #announces = new Uint8Array(WORKERS_MAX);
  readonly #numbers = new WorkerNumbers();
  readonly #slots = new WorkerSlots();

  constructor(options: FleetIndexOptions) {
    const { clock, bytesMax = 2 ** 30, ttlMs = 120_000, predictedTtlMs = 5000 } = options;
    const namer = options.namer ?? new BlockNamer();
    this.namer = namer;
    const { workerBlocksMax = Number.POSITIVE_INFINITY, onStored } = options;
    const eighth = Math.floor(bytesMax / 8);
    const tables = new IndexTables(6 * eighth);
    this.#tables = tables;
    const { retired } = this.#slots;
    this.#exact = new KvIndex({
      ...{ tables, workerBlocksMax, namer, retired },
      onStored: (slot, keys) => {
        for (const guesses of [this.#predicted, this.#approximate]) guesses.told(slot, keys);
        onStored?.(this.#slots.ownerOf(slot), keys);
      },
    });
    const guessed = {
      retired,
      tables,
      clock,
      bytesMax: eighth,
      workerBlocksMax,
      partner: this.#exact,
    };
    this.#approximate = new Guesses({ ...guessed, ttlMs });
    this.#predicted = new Guesses({ ...guessed, ttlMs: predictedTtlMs });
  }

  /** A new worker, and whether it announces its blocks. */
  join({ announces }: { readonly announces: boolean }): WorkerNumber {
    const worker = this.#numbers.take();
    this.#announces[worker] = announces ? 1 : 0;
    this.#slots.take(worker, this.#freeSlot());
    return worker;
  }

  /** The worker is gone, and its blocks with it; its number may be given again. */
  leave(worker: WorkerNumber): void {
    this.#slots.retire(worker);
    this.#numbers.release(worker);
  }

  /** What the worker has is not known any more. */
  reset(worker: WorkerNumber): void {
    if (this.#slots.retire(worker) >= 0) this.#slots.take(worker, this.#freeSlot());
  }

  /**
   * Gives back at most so many blocks of workers that are gone, some 2,000 per ms; false: there are
   * none. Until then their bytes are taken, and found first where others need them.
   */
  reclaim(blocksMax: number): boolean {
    let left = blocksMax;
    for (const slot of this.#slots.retired) {
      for (const part of [this.#exact, this.#approximate, this.#predicted]) {
        left -= part.clearSome(slot, left);
      }
      if (left <= 0) return true;
      this.#exact.leave(slot);
      this.#slots.release(slot);
    }
    return false;
  }

  /** Whether blocks of workers that are gone, or were cleared, wait for `reclaim`. */
  get reclaims(): boolean {
    return this.#slots.retired.size > 0;
  }

  /** See `KvIndex.apply`. What was cleared is forgotten at once, and given back in slices. */
  apply(worker: WorkerNumber, changes: readonly KvChange[]): void {
    if (this.reclaims) this.reclaim(RECLAIMED_AT_ONCE);
    let from = 0;
    for (const [at, change] of changes.entries()) {
      if (change.type !== "cleared" || change.level !== null) continue;
      const slot = this.#slots.slotOf(worker);
      if (slot < 0) return;
      this.#exact.apply(slot, changes.slice(from, at));
      from = at;
      if (this.#exact.countOf(slot) <= RECLAIMED_AT_ONCE) continue;
      this.reset(worker);
      from++;
    }
    const slot = this.#slots.slotOf(worker);
    if (slot >= 0) this.#exact.apply(slot, from === 0 ? changes : changes.slice(from));
  }

  /**
   * A request with this prompt was sent to the worker: it will have its blocks. `isAnnounced`: its
   * events will say so, in the same scope. Default: as it announces its blocks.
   */
  routed(
    worker: WorkerNumber,
    prompt: PromptBlocks,
    isAnnounced: boolean = this.#announces[worker] === 1,
  ): void {
    const slot = this.#slots.slotOf(worker);
    if (slot < 0) return;
    const guesses = isAnnounced ? this.#predicted : this.#approximate;
    guesses.routed(slot, prompt);
  }

  blocksOf(scope: KvScope, tokens: Uint32Array, known?: PromptBlocks): PromptBlocks {
    return this.namer.blocksOf(scope, tokens, known);
  }

  find(prompt: PromptBlocks): readonly PrefixMatch[] {
    this.#advance();
    return this.#slots.named(this.#tables.find(prompt));
  }

  findGroups(groups: readonly GroupBlocks[]): readonly PrefixMatch[] {
    this.#advance();
    return this.#slots.named(this.#tables.findGroups(groups));
  }

  stats(): FleetIndexStats {
    const gone = { exact: 0, approximate: 0, predicted: 0 };
    for (const slot of this.#slots.retired) {
      gone.exact += this.#exact.countOf(slot);
      gone.approximate += this.#approximate.countOf(slot);
      gone.predicted += this.#predicted.countOf(slot);
    }
    const exact = this.#exact.stats();
    const approximate = this.#approximate.stats();
    const predicted = this.#predicted.stats();
    return {
      exact: {
        ...exact,
        workers: this.#numbers.count,
        memberships: exact.memberships - gone.exact,
      },
      approximate: { ...approximate, memberships: approximate.memberships - gone.approximate },
      predicted: { ...predicted, memberships: predicted.memberships - gone.predicted },
      reclaiming: gone.exact + gone.approximate + gone.predicted,
    };
  }

  /** Where all are taken, what is to be given back for longest is given back at once. */
  #freeSlot(): number {
    while (!this.#exact.hasNumber && this.reclaim(RECLAIMED_AT_ONCE)) {
      // The first of them is empty soon.
    }
    return this.#exact.join();
  }

  #advance(): void {
    this.#approximate.advance();
    this.#predicted.advance();
  }
}
