/**
 * Follows a prompt from node to node, with the workers that have had every block so far. While
 * nodes have rows of bits, so have those workers, and one operation does 32 of them; from the first
 * node of few members on they are a short list.
 */
import type { PrefixMatch, WorkerNumber } from "#cluster/protocol";
import type { BlockNodes } from "./block-nodes.ts";
import {
  CUMULATIVE,
  firstMember,
  GUESSED,
  INLINE,
  kindOf,
  LEVEL_BITS,
  LEVEL_MASK,
  LEVELS,
  type MemberSets,
  ROW,
  ROW_WORDS,
  secondMember,
  WORKERS_MAX,
} from "./member-sets.ts";

/** Nodes that are brought near at once: some 8 KiB. */
const WARM_BLOCKS = 128;

export class PrefixWalk {
  readonly #nodes: BlockNodes;
  readonly #members: MemberSets;
  /** Nodes of the prompt's leading blocks. */
  #path = new Uint32Array(256);
  /** Those who have the first block. */
  readonly #starters = new Uint16Array(WORKERS_MAX);
  #starterCount = 0;
  /** [3, WORKERS_MAX] blocks that a starter has, per cumulative level. */
  readonly #counts = new Uint32Array(3 * WORKERS_MAX);
  /** [ROW_WORDS, LEVELS] who has had every block so far, while nodes have rows. */
  readonly #alive = new Int32Array(ROW_WORDS * LEVELS);
  /** And from then on: their numbers, and the cumulative levels on which they have them. */
  readonly #list = new Uint16Array(WORKERS_MAX);
  readonly #listLevels = new Uint8Array(WORKERS_MAX);
  #listLength = 0;
  /** Cumulative levels of the members of the list that is looked at; zeros otherwise. */
  readonly #marks = new Uint8Array(WORKERS_MAX);

  constructor(nodes: BlockNodes) {
    this.#nodes = nodes;
    this.#members = nodes.members;
  }

  /**
   * The leading blocks of each worker that has the first one. Workers have numbers below `workers`;
   * nodes on the way are found at `now`.
   */
  find(keys: Uint32Array, workers: number, now: number): PrefixMatch[] {
    const depth = this.#locate(keys);
    this.#starterCount = 0;
    if (depth > 0) this.#walk(depth, (workers + 31) >>> 5, now);
    return this.#matches();
  }

  /** Nodes of the leading blocks that some worker has; how many. All before any is looked at. */
  #locate(keys: Uint32Array): number {
    const blocks = keys.length >>> 1;
    if (blocks > this.#path.length) this.#path = new Uint32Array(blocks * 2);
    let depth = 0;
    for (; depth < blocks; depth++) {
      // Not before the first is there: most of what is asked may be unknown.
      if (depth % WARM_BLOCKS === 1) {
        this.#nodes.warm(keys, depth, Math.min(blocks, depth + WARM_BLOCKS));
      }
      const node = this.#nodes.find(keys[depth * 2]!, keys[depth * 2 + 1]!);
      if (node < 0) break;
      this.#path[depth] = node;
    }
    return depth;
  }

  #walk(depth: number, rowWords: number, now: number): void {
    let at = 0;
    let set = this.#nodes.touch(this.#path[0]!, now);
    if (kindOf(set) === ROW) {
      this.#startRow(set, rowWords, depth);
      while (kindOf(set) === ROW) {
        if (!this.#stepRow(set, rowWords, at)) return;
        if (++at === depth) return;
        set = this.#nodes.touch(this.#path[at]!, now);
      }
      this.#listAlive(rowWords);
    } else {
      this.#startList(set, depth);
    }
    let last = 0;
    for (;;) {
      // Most nodes of a prompt have the one or two workers of the node before: nothing changes.
      if (set !== last) {
        if (!this.#stepList(set, at)) return;
        last = kindOf(set) === INLINE ? set : 0;
      }
      if (++at === depth) return;
      set = this.#nodes.touch(this.#path[at]!, now);
    }
  }

  #start(worker: WorkerNumber, depth: number): void {
    this.#starters[this.#starterCount++] = worker;
    this.#counts[worker] = depth;
    this.#counts[WORKERS_MAX + worker] = depth;
    this.#counts[2 * WORKERS_MAX + worker] = depth;
  }

  #startRow(set: number, rowWords: number, depth: number): void {
    const words = this.#members.wordsOf(set);
    const alive = this.#alive;
    let from = this.#members.placeOf(set) + 1;
    for (let word = 0; word < rowWords; word++, from += LEVELS) {
      const all = words[from]! | words[from + 1]! | words[from + 2]! | words[from + GUESSED]!;
      for (let level = 0; level < 3; level++) alive[word * LEVELS + level] = all;
      for (let bits = all; bits !== 0; bits &= bits - 1) this.#start(bitIn(word, bits), depth);
    }
  }

  /** False: no worker has all blocks up to this one. */
  #stepRow(set: number, rowWords: number, at: number): boolean {
    const alive = this.#alive;
    const words = this.#members.wordsOf(set);
    let from = this.#members.placeOf(set) + 1;
    let left = 0;
    for (let word = 0; word < rowWords; word++, from += LEVELS) {
      const device = words[from]! | words[from + GUESSED]!;
      const near = device | words[from + 1]!;
      const any = near | words[from + 2]!;
      const here = word * LEVELS;
      const lost =
        (alive[here]! & ~device) | (alive[here + 1]! & ~near) | (alive[here + 2]! & ~any);
      if (lost !== 0) {
        this.#loseBits(word, 0, ~device, at);
        this.#loseBits(word, 1, ~near, at);
        this.#loseBits(word, 2, ~any, at);
      }
      left |= alive[here + 2]!;
    }
    return left !== 0;
  }

  /** Of a row's word: the workers that have a level no more from block `at` on. */
  #loseBits(word: number, level: number, missing: number, at: number): void {
    const before = this.#alive[word * LEVELS + level]!;
    const base = level * WORKERS_MAX;
    for (let bits = before & missing; bits !== 0; bits &= bits - 1) {
      this.#counts[base + bitIn(word, bits)] = at;
    }
    this.#alive[word * LEVELS + level] = before & ~missing;
  }

  /** From bits to a list. */
  #listAlive(rowWords: number): void {
    this.#listLength = 0;
    for (let word = 0; word < rowWords; word++) {
      const here = word * LEVELS;
      for (let bits = this.#alive[here + 2]!; bits !== 0; bits &= bits - 1) {
        const bit = bits & -bits;
        const device = (this.#alive[here]! & bit) === 0 ? 0 : 1;
        const near = (this.#alive[here + 1]! & bit) === 0 ? 0 : 2;
        this.#list[this.#listLength] = bitIn(word, bits);
        this.#listLevels[this.#listLength++] = device | near | 4;
      }
    }
  }

  #startList(set: number, depth: number): void {
    this.#listLength = 0;
    if (kindOf(set) === INLINE) {
      this.#listStarter(firstMember(set), depth);
      if (secondMember(set) !== 0) this.#listStarter(secondMember(set), depth);
      return;
    }
    const words = this.#members.wordsOf(set);
    const place = this.#members.placeOf(set);
    const end = place + this.#members.capacityOf(set);
    for (let at = place; at < end && words[at] !== 0; at++) this.#listStarter(words[at]!, depth);
  }

  #listStarter(member: number, depth: number): void {
    this.#start(member >>> LEVEL_BITS, depth);
    this.#list[this.#listLength] = member >>> LEVEL_BITS;
    this.#listLevels[this.#listLength++] = 7;
  }

  /** False: no worker has all blocks up to this one. */
  #stepList(set: number, at: number): boolean {
    const kind = kindOf(set);
    if (kind === ROW) {
      for (let place = 0; place < this.#listLength; place++) {
        const worker = this.#list[place]!;
        this.#marks[worker] = CUMULATIVE[this.#members.levelsOf(set, worker)]!;
      }
      this.#keepMarked(at);
    } else if (kind === INLINE) {
      this.#mark(firstMember(set));
      this.#mark(secondMember(set));
      this.#keepMarked(at);
      this.#marks[firstMember(set) >>> LEVEL_BITS] = 0;
      this.#marks[secondMember(set) >>> LEVEL_BITS] = 0;
    } else {
      const words = this.#members.wordsOf(set);
      const place = this.#members.placeOf(set);
      const end = place + this.#members.capacityOf(set);
      for (let from = place; from < end && words[from] !== 0; from++) this.#mark(words[from]!);
      this.#keepMarked(at);
      for (let from = place; from < end && words[from] !== 0; from++)
        this.#marks[words[from]! >>> LEVEL_BITS] = 0;
    }
    return this.#listLength > 0;
  }

  #mark(member: number): void {
    if (member !== 0) this.#marks[member >>> LEVEL_BITS] = CUMULATIVE[member & LEVEL_MASK]!;
  }

  /** Notes what listed workers have no more from block `at` on; drops those who have nothing. */
  #keepMarked(at: number): void {
    const marks = this.#marks;
    let kept = 0;
    for (let from = 0; from < this.#listLength; from++) {
      const worker = this.#list[from]!;
      const before = this.#listLevels[from]!;
      const after = before & marks[worker]!;
      marks[worker] = 0;
      if (before !== after) {
        const lost = before ^ after;
        if (lost & 1) this.#counts[worker] = at;
        if (lost & 2) this.#counts[WORKERS_MAX + worker] = at;
        if (lost & 4) this.#counts[2 * WORKERS_MAX + worker] = at;
      }
      if (after === 0) continue;
      this.#list[kept] = worker;
      this.#listLevels[kept++] = after;
    }
    this.#listLength = kept;
  }

  #matches(): PrefixMatch[] {
    const counts = this.#counts;
    const matches = new Array<PrefixMatch>(this.#starterCount);
    // Many workers have as much as the one before: they share what says so.
    let levels: PrefixMatch["levels"] = [0, 0, 0];
    for (let at = 0; at < this.#starterCount; at++) {
      const worker = this.#starters[at]!;
      const device = counts[worker]!;
      const near = counts[WORKERS_MAX + worker]!;
      const any = counts[2 * WORKERS_MAX + worker]!;
      if (levels[0] !== device || levels[1] !== near || levels[2] !== any) {
        levels = [device, near, any];
      }
      matches[at] = { worker, levels };
    }
    return matches;
  }
}

/** The number of the lowest of `bits` in a row's word. */
function bitIn(word: number, bits: number): WorkerNumber {
  return word * 32 + 31 - Math.clz32(bits & -bits);
}
