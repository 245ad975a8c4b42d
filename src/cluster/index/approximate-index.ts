/** What workers that announce nothing may be thought to have: the prompts sent to them lately. */
import type { Clock } from "#base";
import type {
  GroupBlocks,
  KvScope,
  PrefixLookup,
  PrefixMatch,
  PromptBlocks,
  WorkerNumber,
} from "#cluster/protocol";
import { BlockNamer } from "./block-namer.ts";
import { Guesses, type GuessStats } from "./guesses.ts";
import { IndexTables } from "./index-tables.ts";

export interface ApproximateIndexOptions {
  readonly clock: Clock;
  /** How long a worker is thought to have a prompt after it was sent there. */
  readonly ttlMs: number;
  readonly bytesMax: number;
  /** Most blocks of one worker: those of its device, where they are known. */
  readonly workerBlocksMax?: number;
  readonly namer?: BlockNamer;
}

export class ApproximateIndex implements PrefixLookup {
  readonly namer: BlockNamer;
  readonly #tables: IndexTables;
  readonly #guesses: Guesses;

  constructor(options: ApproximateIndexOptions) {
    const { clock, ttlMs, bytesMax, workerBlocksMax = Number.POSITIVE_INFINITY } = options;
    this.namer = options.namer ?? new BlockNamer();
    // Half for the nodes, half for who has been sent what.
    this.#tables = new IndexTables(bytesMax / 2);
    const of = { clock, ttlMs, bytesMax: bytesMax / 2, workerBlocksMax };
    this.#guesses = new Guesses({ tables: this.#tables, ...of });
  }

  /** From now on, and for the time to live, the worker is thought to have these blocks. */
  routed(worker: WorkerNumber, prompt: PromptBlocks): void {
    this.#guesses.routed(worker, prompt);
  }

  /** The worker is gone, or began anew. */
  reset(worker: WorkerNumber): void {
    this.#guesses.reset(worker);
  }

  blocksOf(scope: KvScope, tokens: Uint32Array, known?: PromptBlocks): PromptBlocks {
    return this.namer.blocksOf(scope, tokens, known);
  }

  /** Blocks that are thought to be on the device: farther levels are not guessed. */
  find(prompt: PromptBlocks): readonly PrefixMatch[] {
    this.#guesses.advance();
    return this.#tables.find(prompt);
  }

  findGroups(groups: readonly GroupBlocks[]): readonly PrefixMatch[] {
    this.#guesses.advance();
    return this.#tables.findGroups(groups);
  }

  /** Bytes of all tables. */
  stats(): GuessStats {
    const stats = this.#guesses.stats();
    const { bytes, bytesMax } = this.#tables.budget;
    return { ...stats, bytes: stats.bytes + bytes, bytesMax: stats.bytesMax + bytesMax };
  }
}
