/**
 * Who holds which block on which level: nodes and holdings kept equal to each other, within the
 * budget. Where there is no room, the worker with most blocks gives up its oldest.
 */
import type { WorkerNumber } from "#cluster/protocol";
import { randomSecret } from "./block-namer.ts";
import type { BlockNodes } from "./block-nodes.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { Holdings, REFERENCES_MAX } from "./holdings.ts";
import { WORKERS_MAX } from "./member-sets.ts";

/** Holdings that are given up at a time where the budget has no room. */
const EVICTED_AT_ONCE = 64;
/** Most holdings that one eviction passes over, since they were found after they were announced. */
const SPARED_MAX = 512;
/** Tries to make room for one block. */
const ATTEMPTS = 4;
/** What an entry of the Map of aliases takes, at most. */
const ALIAS_BYTES = 160;

export interface BlockBookOptions {
  readonly nodes: BlockNodes;
  /** Of the holdings; that of the nodes may be another. */
  readonly budget: ByteBudget;
  readonly workerBlocksMax: number;
  /** The nodes' level that the book's level 0 is: 0, or that of guesses. */
  readonly firstLevel: number;
  /** Whether what was found since it was announced is as new as that. */
  readonly sparesFound: boolean;
  /** Gives up blocks, too, where the nodes have no room. */
  readonly partner?: Partner;
  /** Numbers whose workers are gone: what they held is given up first. */
  readonly retired?: ReadonlySet<WorkerNumber>;
}

/** Who shares the nodes. */
export interface Partner {
  makeRoom(): void;
}

export class BlockBook implements Partner {
  readonly nodes: BlockNodes;
  readonly holdings: Holdings;
  readonly #budget: ByteBudget;
  readonly #partner: Partner | null;
  readonly #retired: ReadonlySet<WorkerNumber>;
  readonly #firstLevel: number;
  readonly #sparesFound: boolean;
  readonly #workerBlocksMax: number;
  /**
   * Where a worker has several names for one block: by node, worker and level, how many holdings
   * have the level beside the first. Contents that tokens do not tell (images) are such names.
   */
  readonly #aliases = new Map<string, number>();
  /** The book's own time, in whatever unit: set before each change. */
  now = 0;
  evicted = 0;
  renamed = 0;
  refused = 0;

  constructor(options: BlockBookOptions) {
    this.nodes = options.nodes;
    this.#budget = options.budget;
    this.#partner = options.partner ?? null;
    this.#retired = options.retired ?? new Set();
    this.#firstLevel = options.firstLevel;
    this.#sparesFound = options.sparesFound;
    this.#workerBlocksMax = options.workerBlocksMax;
    const salts = new Uint32Array(2 * WORKERS_MAX);
    for (let at = 0; at < salts.length; at += 4) salts.set(randomSecret(), at);
    this.holdings = new Holdings(this.#budget, randomSecret(), salts);
  }

  /** One more reference of a worker to the block `key`, which it calls `name`. */
  announce(
    worker: WorkerNumber,
    name: Uint32Array,
    at: number,
    key: Uint32Array,
    keyAt: number,
    level: number,
  ): boolean {
    const low = name[at]!;
    const high = name[at + 1]!;
    const keyLow = key[keyAt]!;
    const keyHigh = key[keyAt + 1]!;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      let id = this.holdings.find(worker, low, high);
      if (id >= 0 && !this.#means(id, keyLow, keyHigh)) {
        this.drop(worker, id);
        this.renamed++;
        id = -1;
      }
      if (id < 0) id = this.#create(worker, low, high, keyLow, keyHigh);
      if (id >= 0) {
        if (this.refer(worker, id, level)) return true;
        if (this.holdings.isUnreferenced(id)) this.#forget(worker, id);
      }
      this.makeRoom();
      this.#partner?.makeRoom();
    }
    this.refused++;
    return false;
  }

  /** Workers that are gone, or the one with most blocks, give up some. */
  makeRoom(): void {
    for (const worker of this.#retired) {
      if (this.clearSome(worker, EVICTED_AT_ONCE) > 0) return;
    }
    this.#evict(this.holdings.largest(), EVICTED_AT_ONCE);
  }

  /** One more reference to what a worker holds already; false: the budget has no room. */
  refer(worker: WorkerNumber, id: number, level: number): boolean {
    const { holdings } = this;
    const references = holdings.references(id, level);
    if (references === 0 && !this.#gain(worker, id, level)) return false;
    if (references < REFERENCES_MAX) holdings.setReferences(id, level, references + 1);
    holdings.renew(worker, id, this.now);
    return true;
  }

  /** One reference less; false: there was none on this level. */
  withdraw(worker: WorkerNumber, id: number, level: number): boolean {
    const references = this.holdings.references(id, level);
    if (references === 0) return false;
    this.holdings.setReferences(id, level, references - 1);
    if (references === 1) this.#lose(worker, id, level);
    return true;
  }

  /** All references on a level; the holding is gone where it has no others. */
  withdrawAll(worker: WorkerNumber, id: number, level: number): void {
    if (this.holdings.references(id, level) === 0) return;
    this.holdings.setReferences(id, level, 0);
    this.#lose(worker, id, level);
  }

  /** All references on all levels. */
  drop(worker: WorkerNumber, id: number): void {
    const node = this.nodeOf(id);
    let levels = this.nodes.levelsOf(node, worker);
    for (let level = 0; level < 3; level++) {
      if (this.holdings.references(id, level) === 0) continue;
      if (!this.#loseAlias(worker, id, level)) levels &= ~this.#bitOf(level);
    }
    this.holdings.remove(worker, id);
    this.nodes.setLevels(node, worker, levels);
  }

  /** The node that a holding means. */
  nodeOf(id: number): number {
    return this.nodes.find(this.holdings.lowOf(id), this.holdings.highOf(id));
  }

  /** Everything of a worker, or of one of its levels. */
  clear(worker: WorkerNumber, level: number | null): void {
    let next = this.holdings.oldestOf(worker);
    while (next >= 0) {
      const id = next;
      next = this.holdings.after(id);
      if (level === null) this.drop(worker, id);
      else this.withdrawAll(worker, id, level);
    }
  }

  /** At most so many blocks of a worker, those announced longest ago; how many it had of them. */
  clearSome(worker: WorkerNumber, most: number): number {
    let count = 0;
    for (; count < most; count++) {
      const id = this.holdings.oldestOf(worker);
      if (id < 0) break;
      this.drop(worker, id);
    }
    return count;
  }

  /** A new holding, of the name looked for last, without references; -1: the budget has no room. */
  #create(
    worker: WorkerNumber,
    low: number,
    high: number,
    keyLow: number,
    keyHigh: number,
  ): number {
    if (this.holdings.countOf(worker) >= this.#workerBlocksMax) this.#evict(worker, 1);
    const id = this.holdings.insertSought(worker, low, high);
    if (id < 0) return -1;
    let node = this.nodes.find(keyLow, keyHigh);
    if (node < 0) node = this.nodes.insert(keyLow, keyHigh);
    if (node < 0) {
      this.holdings.remove(worker, id);
      return -1;
    }
    this.holdings.setName(id, keyLow, keyHigh);
    return id;
  }

  /** Removes a holding that never had a reference, and its node where no worker has it. */
  #forget(worker: WorkerNumber, id: number): void {
    const node = this.nodeOf(id);
    this.holdings.remove(worker, id);
    if (this.nodes.setOf(node) === 0) this.nodes.setLevels(node, worker, 0);
  }

  #means(id: number, keyLow: number, keyHigh: number): boolean {
    return this.holdings.lowOf(id) === keyLow && this.holdings.highOf(id) === keyHigh;
  }

  #gain(worker: WorkerNumber, id: number, level: number): boolean {
    const node = this.nodeOf(id);
    const levels = this.nodes.levelsOf(node, worker);
    if ((levels & this.#bitOf(level)) === 0) {
      return this.nodes.setLevels(node, worker, levels | this.#bitOf(level));
    }
    const alias = this.#aliasOf(worker, id, level);
    const count = this.#aliases.get(alias) ?? 0;
    if (count === 0 && !this.#budget.take(ALIAS_BYTES)) return false;
    this.#aliases.set(alias, count + 1);
    return true;
  }

  #lose(worker: WorkerNumber, id: number, level: number): void {
    const isKept = this.#loseAlias(worker, id, level);
    const node = this.nodeOf(id);
    if (this.holdings.isUnreferenced(id)) this.holdings.remove(worker, id);
    if (isKept) return;
    this.nodes.setLevels(node, worker, this.nodes.levelsOf(node, worker) & ~this.#bitOf(level));
  }

  #bitOf(level: number): number {
    return 1 << (level + this.#firstLevel);
  }

  /** Whether another name of the worker keeps the level. */
  #loseAlias(worker: WorkerNumber, id: number, level: number): boolean {
    if (this.#aliases.size === 0) return false;
    const alias = this.#aliasOf(worker, id, level);
    const count = this.#aliases.get(alias);
    if (count === undefined) return false;
    if (count > 1) {
      this.#aliases.set(alias, count - 1);
    } else {
      this.#aliases.delete(alias);
      this.#budget.give(ALIAS_BYTES);
    }
    return true;
  }

  #aliasOf(worker: WorkerNumber, id: number, level: number): string {
    return `${this.holdings.lowOf(id)} ${this.holdings.highOf(id)} ${worker} ${level}`;
  }

  /** Gives up a worker's oldest holdings; those that were found since are as new as that. */
  #evict(worker: WorkerNumber, count: number): void {
    let spared = 0;
    for (let given = 0; given < count; ) {
      const id = this.holdings.oldestOf(worker);
      if (id < 0) return;
      const foundAt = this.#sparesFound ? this.nodes.foundAt(this.nodeOf(id)) : 0;
      const isFound = this.#sparesFound && ((foundAt - this.holdings.seenAt(id)) | 0) > 0;
      if (isFound && spared < SPARED_MAX) {
        this.holdings.renew(worker, id, foundAt);
        spared++;
        continue;
      }
      this.drop(worker, id);
      this.evicted++;
      given++;
    }
  }
}
