/** The exact index: who has which blocks on which level, from what the workers announce. */
import type {
  BlockNames,
  GroupBlocks,
  KvChange,
  KvScope,
  PrefixLookup,
  PrefixMatch,
  PromptBlocks,
  WorkerNumber,
} from "#cluster/protocol";
import { BlockBook } from "./block-book.ts";
import { BlockNamer, isBlockSize } from "./block-namer.ts";
import { NEAR_MAX } from "./holdings.ts";
import { IndexTables } from "./index-tables.ts";
import { WORKERS_MAX } from "./member-sets.ts";
import { WorkerNumbers } from "./worker-numbers.ts";

export interface KvIndexOptions {
  /** Most bytes of all tables together; 1 GiB holds some 10 to 15 million blocks of workers. */
  readonly bytesMax?: number;
  /** Most blocks of one worker; its oldest go first. Default: no bound but the bytes. */
  readonly workerBlocksMax?: number;
  /** Names blocks; given where several indexes are asked with the same names. */
  readonly namer?: BlockNamer;
  /**
   * Whether prefixes that begin with these tokens are of this index, which is a shard; runs of
   * others are left out. Default: all are.
   */
  readonly owns?: (scope: KvScope, tokens: Uint32Array) => boolean;
  /** Shared with what else is found in them; their bound holds then, not `bytesMax`. */
  readonly tables?: IndexTables;
  /** See `BlockBookOptions`. */
  readonly retired?: ReadonlySet<WorkerNumber>;
  /** Told of stored blocks, low and high halves of the index's names; a view for the call. */
  readonly onStored?: (worker: WorkerNumber, keys: Uint32Array) => void;
}

/** What an index has, and what it has seen. Counts grow for ever, except the first five. */
export interface KvIndexStats {
  /** That the tables take, and may take. */
  readonly bytes: number;
  readonly bytesMax: number;
  readonly workers: number;
  /** Different contents. */
  readonly blocks: number;
  /** Blocks of workers: a block that three workers have counts three times. */
  readonly memberships: number;
  /** Blocks that were announced, and blocks whose end was. */
  readonly stored: number;
  readonly removed: number;
  /** Blocks given up for want of room, and blocks for which no room was found. */
  readonly evicted: number;
  readonly refused: number;
  /** Removals and moves of blocks that the worker was not known to have there. */
  readonly ignoredRemovals: number;
  /** Blocks that were kept out, since the one before them is not known. */
  readonly unknownParents: number;
  /** Blocks that were announced without tokens under names that mean nothing. */
  readonly placeholders: number;
  /** Names that got another meaning. */
  readonly renamed: number;
  /** Changes that contradict themselves: wrong numbers of tokens, sizes, levels. */
  readonly malformed: number;
}

const BYTES_MAX = 2 ** 30;
/** Blocks of a long run that are named, and names that are looked for, at a time. */
const SLICE_BLOCKS = NEAR_MAX;

export class KvIndex implements PrefixLookup {
  readonly namer: BlockNamer;
  readonly #tables: IndexTables;
  readonly #book: BlockBook;
  readonly #owns: ((scope: KvScope, tokens: Uint32Array) => boolean) | null;
  readonly #onStored: ((worker: WorkerNumber, keys: Uint32Array) => void) | null;
  readonly #numbers = new WorkerNumbers();
  readonly #keys = new Uint32Array(SLICE_BLOCKS * 2);
  readonly #parent = new Uint32Array(2);
  #stored = 0;
  #removed = 0;
  #ignoredRemovals = 0;
  #unknownParents = 0;
  #placeholders = 0;
  #malformed = 0;

  constructor(options: KvIndexOptions = {}) {
    const { bytesMax = BYTES_MAX, workerBlocksMax = Number.POSITIVE_INFINITY } = options;
    this.namer = options.namer ?? new BlockNamer();
    this.#tables = options.tables ?? new IndexTables(bytesMax);
    this.#book = new BlockBook({
      ...{ nodes: this.#tables.nodes, budget: this.#tables.budget, workerBlocksMax },
      ...{ firstLevel: 0, sparesFound: true },
      ...(options.retired === undefined ? {} : { retired: options.retired }),
    });
    this.#owns = options.owns ?? null;
    this.#onStored = options.onStored ?? null;
  }

  /** The lowest free number, with no blocks. */
  join(): WorkerNumber {
    const worker = this.#numbers.take();
    this.#tables.admit(worker);
    return worker;
  }

  /** The worker is gone, and its blocks with it; its number may be given again. */
  leave(worker: WorkerNumber): void {
    this.reset(worker);
    this.#numbers.release(worker);
  }

  /** What the worker has is not known any more: it has nothing until it announces it. */
  reset(worker: WorkerNumber): void {
    if (this.#numbers.isTaken(worker)) this.#book.clear(worker, null);
  }

  /**
   * Takes over changes in their order. Never throws at what they say: what makes no sense is left
   * out and counted. Changes of a worker that has left are ignored.
   */
  apply(worker: WorkerNumber, changes: readonly KvChange[]): void {
    if (!this.#numbers.isTaken(worker)) return;
    for (const change of changes) this.#applyOne(worker, change);
  }

  /** See `PrefixLookup`; `known` names a beginning of the same tokens, which spares doing so. */
  blocksOf(scope: KvScope, tokens: Uint32Array, known?: PromptBlocks): PromptBlocks {
    return this.namer.blocksOf(scope, tokens, known);
  }

  find(prompt: PromptBlocks): readonly PrefixMatch[] {
    return this.#tables.find(prompt);
  }

  findGroups(groups: readonly GroupBlocks[]): readonly PrefixMatch[] {
    return this.#tables.findGroups(groups);
  }

  /** Whether a number is free. */
  get hasNumber(): boolean {
    return this.#numbers.count < WORKERS_MAX;
  }

  /** Blocks that the worker has. */
  countOf(worker: WorkerNumber): number {
    return this.#book.holdings.countOf(worker);
  }

  /** Forgets at most so many blocks of a worker; how many it had of them. */
  clearSome(worker: WorkerNumber, most: number): number {
    return this.#book.clearSome(worker, most);
  }

  /** The worker with most blocks gives up some: others need room in the same tables. */
  makeRoom(): void {
    this.#book.makeRoom();
  }

  stats(): KvIndexStats {
    const { holdings, evicted, refused, renamed } = this.#book;
    const { budget, nodes } = this.#tables;
    return {
      bytes: budget.bytes,
      bytesMax: budget.bytesMax,
      workers: this.#numbers.count,
      blocks: nodes.count,
      memberships: holdings.count,
      stored: this.#stored,
      removed: this.#removed,
      evicted,
      refused,
      ignoredRemovals: this.#ignoredRemovals,
      unknownParents: this.#unknownParents,
      placeholders: this.#placeholders,
      renamed,
      malformed: this.#malformed,
    };
  }

  #applyOne(worker: WorkerNumber, change: KvChange): void {
    this.#book.now = ++this.#tables.now;
    if (!isWellFormed(change)) {
      this.#malformed++;
      return;
    }
    switch (change.type) {
      case "stored":
        if (change.tokens.length === 0) this.#storePlaceholders(worker, change);
        else this.#store(worker, change);
        break;
      case "removed":
        this.#remove(worker, change.names, change.level);
        break;
      case "moved":
        this.#move(worker, change.names, change.from, change.to);
        break;
      case "cleared":
        this.#book.clear(worker, change.level);
        break;
    }
  }

  #store(worker: WorkerNumber, change: Stored): void {
    const { scope, names, tokens, level } = change;
    const blocks = names.length >>> 1;
    if (change.parent === null && this.#owns?.(scope, tokens) === false) return;
    this.#stored += blocks;
    if (!this.#findParent(worker, change)) {
      this.#unknownParents += blocks;
      return;
    }
    for (let from = 0; from < blocks; from += SLICE_BLOCKS) {
      const until = Math.min(blocks, from + SLICE_BLOCKS);
      const keys = this.#keys.subarray(0, (until - from) * 2);
      const part = tokens.subarray(from * scope.blockTokens, until * scope.blockTokens);
      this.namer.nameRun(this.#parent, part, keys);
      this.#book.holdings.warm(worker, names, from, until);
      this.#tables.nodes.warm(keys, 0, until - from);
      for (let block = from; block < until; block++) {
        this.#book.announce(worker, names, block * 2, keys, (block - from) * 2, level);
      }
      if (keys.length > 0) this.#parent.set(keys.subarray(keys.length - 2));
      this.#onStored?.(worker, keys);
    }
  }

  /** Sets `#parent` to the name of what a run follows; false: it is not known. */
  #findParent(worker: WorkerNumber, { scope, parent }: Stored): boolean {
    if (parent === null) {
      this.#parent.set(this.namer.rootOf(scope));
      return true;
    }
    const id = this.#book.holdings.find(worker, parent[0]!, parent[1]!);
    if (id < 0) return false;
    this.#tables.nodes.touch(this.#book.nodeOf(id), this.#book.now);
    this.#parent[0] = this.#book.holdings.lowOf(id);
    this.#parent[1] = this.#book.holdings.highOf(id);
    return true;
  }

  #storePlaceholders(worker: WorkerNumber, { names, level }: Stored): void {
    for (let at = 0; at < names.length; at += 2) {
      const id = this.#book.holdings.find(worker, names[at]!, names[at + 1]!);
      this.#stored++;
      if (id < 0) this.#placeholders++;
      else if (!this.#book.refer(worker, id, level)) this.#book.refused++;
    }
  }

  #remove(worker: WorkerNumber, names: BlockNames, level: number | null): void {
    const { holdings } = this.#book;
    for (let at = 0; at < names.length; at += 2) {
      const place = (at >>> 1) % SLICE_BLOCKS;
      if (place === 0) this.#bringNear(worker, names, at >>> 1);
      const id = holdings.findWarm(worker, place, names[at]!, names[at + 1]!);
      if (id >= 0 && level === null) this.#book.drop(worker, id);
      else if (id < 0 || level === null || !this.#book.withdraw(worker, id, level)) {
        this.#ignoredRemovals++;
        continue;
      }
      this.#removed++;
    }
  }

  /** A slice of names, what they mean and its nodes: one by one, each would be waited for. */
  #bringNear(worker: WorkerNumber, names: BlockNames, from: number): void {
    const { holdings } = this.#book;
    const until = Math.min(from + SLICE_BLOCKS, names.length >>> 1);
    holdings.warm(worker, names, from, until);
    this.#tables.nodes.warm(this.#keys, 0, holdings.guess(until - from, this.#keys));
  }

  #move(worker: WorkerNumber, names: BlockNames, from: number, to: number): void {
    for (let at = 0; at < names.length; at += 2) {
      const id = this.#book.holdings.find(worker, names[at]!, names[at + 1]!);
      if (id < 0) {
        this.#ignoredRemovals++;
        continue;
      }
      // The new place first: a block without references is forgotten.
      if (!this.#book.refer(worker, id, to)) this.#book.refused++;
      if (!this.#book.withdraw(worker, id, from)) this.#ignoredRemovals++;
    }
  }
}

type Stored = Extract<KvChange, { readonly type: "stored" }>;

/** Whether a change says nothing that contradicts itself. */
export function isWellFormed(change: KvChange): boolean {
  switch (change.type) {
    case "stored": {
      const { scope, names, tokens, parent } = change;
      if (!isLevel(change.level) || names.length % 2 !== 0) return false;
      if (parent !== null && parent.length !== 2) return false;
      if (tokens.length === 0) return true;
      return (
        isBlockSize(scope.blockTokens) && tokens.length === (names.length >>> 1) * scope.blockTokens
      );
    }
    case "removed":
      return change.names.length % 2 === 0 && (change.level === null || isLevel(change.level));
    case "moved":
      return change.names.length % 2 === 0 && isLevel(change.from) && isLevel(change.to);
    case "cleared":
      return change.level === null || isLevel(change.level);
  }
}

function isLevel(level: number): boolean {
  return level === 0 || level === 1 || level === 2;
}
