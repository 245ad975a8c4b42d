/** What some worker has: a node per contents, under its name, with the set of its workers. */
import type { WorkerNumber } from "#cluster/protocol";
import type { ByteBudget } from "./byte-budget.ts";
import { MemberSets } from "./member-sets.ts";
import { NodeTable } from "./node-table.ts";

/** Words of a node behind its name: its members, and when it was found last. */
const MEMBERS = 2;
const FOUND = 3;

/** Nodes are numbers that mean something until the next one comes or goes. */
export class BlockNodes {
  readonly members: MemberSets;
  readonly #table: NodeTable;

  constructor(budget: ByteBudget) {
    this.members = new MemberSets(budget);
    this.#table = new NodeTable(budget);
  }

  get count(): number {
    return this.#table.count;
  }

  /** The node of a name; -1: no worker has the block. */
  find(low: number, high: number): number {
    return this.#table.find(low, high);
  }

  /** Makes looking for the names of blocks `from` up to `until` quick. */
  warm(keys: Uint32Array, from: number, until: number): void {
    this.#table.warm(keys, from, until);
  }

  /** A new node without members, of a name that has none; -1: there is no room. */
  insert(low: number, high: number): number {
    return this.#table.insert(low, high);
  }

  setOf(node: number): number {
    return this.#table.wordsOf(node)[this.#table.offsetOf(node) + MEMBERS]!;
  }

  /** When the node was found last. */
  foundAt(node: number): number {
    return this.#table.wordsOf(node)[this.#table.offsetOf(node) + FOUND]!;
  }

  /** Says that the node was found now; its set of members. */
  touch(node: number, now: number): number {
    const words = this.#table.wordsOf(node);
    const offset = this.#table.offsetOf(node);
    words[offset + FOUND] = now;
    return words[offset + MEMBERS]!;
  }

  /** The levels on which a worker has the block, a bit each. */
  levelsOf(node: number, worker: WorkerNumber): number {
    return this.members.levelsOf(this.setOf(node), worker);
  }

  /** False: the budget has no room, nothing has changed. A node without members is gone. */
  setLevels(node: number, worker: WorkerNumber, levels: number): boolean {
    const words = this.#table.wordsOf(node);
    const at = this.#table.offsetOf(node) + MEMBERS;
    const set = this.members.withLevels(words[at]!, worker, levels);
    if (set < 0) return false;
    words[at] = set;
    if (set === 0) this.#table.remove(node);
    return true;
  }
}
