/** What some worker has: a node per contents, under its name, with the set of its workers. */
import type { WorkerNumber } from "#cluster/protocol";
import type { ByteBudget } from "./byte-budget.ts";
import { KeyedSlab } from "./keyed-slab.ts";
import { MemberSets } from "./member-sets.ts";

/** Words of a node: its name, its members, and when it was found last. */
const WORDS = 4;
const MEMBERS = 2;
const FOUND = 3;

export class BlockNodes {
  readonly members: MemberSets;
  readonly #entries: KeyedSlab;

  constructor(budget: ByteBudget) {
    this.members = new MemberSets(budget);
    this.#entries = new KeyedSlab(WORDS, budget, null);
  }

  get count(): number {
    return this.#entries.count;
  }

  /** The node of a name; -1: no worker has the block. */
  find(low: number, high: number): number {
    return this.#entries.find(low, high);
  }

  /** A new node without members; -1: the budget has no room. */
  insert(low: number, high: number): number {
    return this.#entries.insert(low, high);
  }

  /** Whether a node has this name. */
  isNamed(node: number, low: number, high: number): boolean {
    const words = this.#entries.chunkOf(node);
    const place = this.#entries.placeOf(node);
    return words[place] === low && words[place + 1] === high;
  }

  /** Copies a node's name. */
  nameOf(node: number, name: Uint32Array): void {
    const words = this.#entries.chunkOf(node);
    const place = this.#entries.placeOf(node);
    name[0] = words[place]!;
    name[1] = words[place + 1]!;
  }

  setOf(node: number): number {
    return this.#entries.chunkOf(node)[this.#entries.placeOf(node) + MEMBERS]!;
  }

  /** When the node was found last. */
  foundAt(node: number): number {
    return this.#entries.chunkOf(node)[this.#entries.placeOf(node) + FOUND]!;
  }

  /** Says that the node was found now; its set of members. */
  touch(node: number, now: number): number {
    const words = this.#entries.chunkOf(node);
    const place = this.#entries.placeOf(node);
    words[place + FOUND] = now;
    return words[place + MEMBERS]!;
  }

  /** The levels on which a worker has the block, a bit each. */
  levelsOf(node: number, worker: WorkerNumber): number {
    return this.members.levelsOf(this.setOf(node), worker);
  }

  /** False: the budget has no room, nothing has changed. A node without members is gone. */
  setLevels(node: number, worker: WorkerNumber, levels: number): boolean {
    const words = this.#entries.chunkOf(node);
    const place = this.#entries.placeOf(node) + MEMBERS;
    const set = this.members.withLevels(words[place]!, worker, levels);
    if (set < 0) return false;
    words[place] = set;
    if (set === 0) this.#entries.remove(node);
    return true;
  }
}
