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
}

export class FleetIndex implements PrefixLookup {
  readonly namer: BlockNamer;
  readonly #tables: IndexTables;
  readonly #exact: KvIndex;
  /** Of workers that announce nothing, and of the others. */
  readonly #approximate: Guesses;
  readonly #predicted: Guesses;
  readonly #announces = new Uint8Array(WORKERS_MAX);

  constructor(options: FleetIndexOptions) {
    const { clock, bytesMax = 2 ** 30, ttlMs = 120_000, predictedTtlMs = 5000 } = options;
    const namer = options.namer ?? new BlockNamer();
    this.namer = namer;
    const { workerBlocksMax = Number.POSITIVE_INFINITY, onStored } = options;
    const eighth = Math.floor(bytesMax / 8);
    const tables = new IndexTables(6 * eighth);
    this.#tables = tables;
    this.#exact = new KvIndex({
      ...{ tables, workerBlocksMax, namer },
      onStored: (worker, keys) => {
        this.#predicted.told(worker, keys);
        onStored?.(worker, keys);
      },
    });
    const guessed = { tables, clock, bytesMax: eighth, workerBlocksMax, partner: this.#exact };
    this.#approximate = new Guesses({ ...guessed, ttlMs });
    this.#predicted = new Guesses({ ...guessed, ttlMs: predictedTtlMs });
  }

  /** A new worker, and whether it announces its blocks. */
  join({ announces }: { readonly announces: boolean }): WorkerNumber {
    const worker = this.#exact.join();
    this.#announces[worker] = announces ? 1 : 0;
    return worker;
  }

  /** The worker is gone, and its blocks with it; its number may be given again. */
  leave(worker: WorkerNumber): void {
    this.reset(worker);
    this.#exact.leave(worker);
  }

  /** What the worker has is not known any more. */
  reset(worker: WorkerNumber): void {
    this.#exact.reset(worker);
    this.#approximate.reset(worker);
    this.#predicted.reset(worker);
  }

  /** See `KvIndex.apply`. */
  apply(worker: WorkerNumber, changes: readonly KvChange[]): void {
    this.#exact.apply(worker, changes);
  }

  /** A request with this prompt was sent to the worker: it will have its blocks. */
  routed(worker: WorkerNumber, prompt: PromptBlocks): void {
    const guesses = this.#announces[worker] === 1 ? this.#predicted : this.#approximate;
    guesses.routed(worker, prompt);
  }

  blocksOf(scope: KvScope, tokens: Uint32Array, known?: PromptBlocks): PromptBlocks {
    return this.namer.blocksOf(scope, tokens, known);
  }

  find(prompt: PromptBlocks): readonly PrefixMatch[] {
    this.#advance();
    return this.#tables.find(prompt);
  }

  findGroups(groups: readonly GroupBlocks[]): readonly PrefixMatch[] {
    this.#advance();
    return this.#tables.findGroups(groups);
  }

  stats(): FleetIndexStats {
    return {
      exact: this.#exact.stats(),
      approximate: this.#approximate.stats(),
      predicted: this.#predicted.stats(),
    };
  }

  #advance(): void {
    this.#approximate.advance();
    this.#predicted.advance();
  }
}
