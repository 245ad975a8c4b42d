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
  type MemberSets,
  ROW,
  ROW_WORDS,
  secondMember,
  WORKERS_MAX,
} from "./member-sets.ts";

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
  /** [3, ROW_WORDS] who has had every block so far, while nodes have rows. */
  readonly #alive = new Int32Array(3 * ROW_WORDS);
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
    while (this.#stepList(set, at)) {
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
    const place = this.#members.placeOf(set) + 1;
    for (let word = 0; word < rowWords; word++) {
      const all =
        words[place + word]! |
        words[place + ROW_WORDS + word]! |
        words[place + 2 * ROW_WORDS + word]! |
        words[place + GUESSED * ROW_WORDS + word]!;
      for (let level = 0; level < 3; level++) this.#alive[level * ROW_WORDS + word] = all;
      for (let bits = all; bits !== 0; bits &= bits - 1) this.#start(bitIn(word, bits), depth);
    }
  }

  /** False: no worker has all blocks up to this one. */
  #stepRow(set: number, rowWords: number, at: number): boolean {
    const alive = this.#alive;
    const words = this.#members.wordsOf(set);
    const place = this.#members.placeOf(set) + 1;
    let left = 0;
    for (let word = 0; word < rowWords; word++) {
      let has = words[place + GUESSED * ROW_WORDS + word]!;
      for (let level = 0; level < 3; level++) {
        has |= words[place + level * ROW_WORDS + word]!;
        const before = alive[level * ROW_WORDS + word]!;
        const lost = before & ~has;
        if (lost !== 0) {
          this.#loseBits(lost, level * WORKERS_MAX + word * 32, at);
          alive[level * ROW_WORDS + word] = before & has;
        }
      }
      left |= alive[2 * ROW_WORDS + word]!;
    }
    return left !== 0;
  }

  #loseBits(lost: number, base: number, at: number): void {
    for (let bits = lost; bits !== 0; bits &= bits - 1) {
      this.#counts[base + 31 - Math.clz32(bits & -bits)] = at;
    }
  }

  /** From bits to a list. */
  #listAlive(rowWords: number): void {
    this.#listLength = 0;
    for (let word = 0; word < rowWords; word++) {
      for (let bits = this.#alive[2 * ROW_WORDS + word]!; bits !== 0; bits &= bits - 1) {
        const bit = bits & -bits;
        const device = (this.#alive[word]! & bit) === 0 ? 0 : 1;
        const near = (this.#alive[ROW_WORDS + word]! & bit) === 0 ? 0 : 2;
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
      this.#keepListed((worker) => CUMULATIVE[this.#members.levelsOf(set, worker)]!, at);
    } else if (kind === INLINE) {
      this.#stepInline(firstMember(set), secondMember(set), at);
    } else {
      const words = this.#members.wordsOf(set);
      const place = this.#members.placeOf(set);
      const end = place + this.#members.capacityOf(set);
      const marks = this.#marks;
      for (let from = place; from < end && words[from] !== 0; from++) {
        marks[words[from]! >>> LEVEL_BITS] = CUMULATIVE[words[from]! & LEVEL_MASK]!;
      }
      this.#keepListed((worker) => marks[worker]!, at);
      for (let from = place; from < end && words[from] !== 0; from++)
        marks[words[from]! >>> LEVEL_BITS] = 0;
    }
    return this.#listLength > 0;
  }

  #stepInline(first: number, second: number, at: number): void {
    if (this.#listLength === 1) {
      // Most of a prompt's nodes: one worker is left, and has all.
      const worker = this.#list[0]!;
      const levels =
        first >>> LEVEL_BITS === worker
          ? first & LEVEL_MASK
          : second >>> LEVEL_BITS === worker
            ? second & LEVEL_MASK
            : 0;
      if ((this.#listLevels[0]! & ~CUMULATIVE[levels]!) === 0) return;
    }
    this.#keepListed((worker) => {
      if (first >>> LEVEL_BITS === worker) return CUMULATIVE[first & LEVEL_MASK]!;
      return second >>> LEVEL_BITS === worker ? CUMULATIVE[second & LEVEL_MASK]! : 0;
    }, at);
  }

  /** Notes what listed workers have no more from block `at` on; drops those who have nothing. */
  #keepListed(cumulativeOf: (worker: WorkerNumber) => number, at: number): void {
    let kept = 0;
    for (let from = 0; from < this.#listLength; from++) {
      const worker = this.#list[from]!;
      const before = this.#listLevels[from]!;
      const after = before & cumulativeOf(worker);
      for (let level = 0; level < 3; level++) {
        if (((before ^ after) >>> level) & 1) this.#counts[level * WORKERS_MAX + worker] = at;
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
    for (let at = 0; at < this.#starterCount; at++) {
      const worker = this.#starters[at]!;
      const host = counts[WORKERS_MAX + worker]!;
      const levels = [counts[worker]!, host, counts[2 * WORKERS_MAX + worker]!] as const;
      matches[at] = { worker, levels };
    }
    return matches;
  }
}

/** The number of the lowest of `bits` in a row's word. */
function bitIn(word: number, bits: number): WorkerNumber {
  return word * 32 + 31 - Math.clz32(bits & -bits);
}
