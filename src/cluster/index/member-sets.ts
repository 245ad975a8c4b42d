/**
 * Which workers hold a block, and on which levels. A set is one 32-bit word, so that the many
 * blocks of one or two workers need nothing else; larger sets are lists, the largest bit maps.
 *
 *   kind  the word's two top bits; the rest is
 *   0     up to two members, 14 bits each
 *   1     the number of a list of up to 8
 *   2     the number of a list of up to 32
 *   3     the number of a row: how many members, then a bit per worker for each of the levels
 *
 * A member is its worker's number times 16 and a bit per level, and never 0. Beside the three
 * levels of caches there is a fourth: what a worker is only thought to have, and then at hand.
 */
import type { WorkerNumber } from "#cluster/protocol";
import type { ByteBudget } from "./byte-budget.ts";
import { Slab } from "./slab.ts";

/** Most workers of an index: ten bits of a member. */
export const WORKERS_MAX = 1024;
/** Words of a row for one level: 32 workers each. */
export const ROW_WORDS = WORKERS_MAX / 32;
/** The levels of caches, and the one of guesses behind them. */
export const GUESSED = 3;
/** In a row, the words of a level lie beside those of the others: a line has 128 workers. */
export const LEVELS = 4;
/** A member is its worker's number, shifted by this, and the levels. */
export const LEVEL_BITS = 4;
export const LEVEL_MASK = (1 << LEVEL_BITS) - 1;

/** Kinds of sets. */
export const INLINE = 0;
const SHORT_LIST = 1;
const LONG_LIST = 2;
export const ROW = 3;

const KIND_SHIFT = 30;
const ID_MASK = (1 << KIND_SHIFT) - 1;
const MEMBER_BITS = 14;
const MEMBER_MASK = (1 << MEMBER_BITS) - 1;
/** Members that a set of each kind holds. */
const CAPACITY = [2, 8, 32, WORKERS_MAX] as const;
/** A set becomes one of the kind below when so few members are left. */
const SHRINKS_AT = [0, 2, 6, 24] as const;

/** Levels of a member, a bit each, to cumulative ones: device; device or host; any. */
export const CUMULATIVE = Uint8Array.of(0, 7, 6, 7, 4, 7, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7);

/** How a set is stored. */
export function kindOf(set: number): number {
  return set >>> KIND_SHIFT;
}

/** The first and second member of a set that is inline; 0: none. */
export function firstMember(set: number): number {
  return set & MEMBER_MASK;
}
export function secondMember(set: number): number {
  return (set >>> MEMBER_BITS) & MEMBER_MASK;
}

export class MemberSets {
  readonly #pools: readonly [Slab, Slab, Slab];
  readonly #scratch = new Uint32Array(WORKERS_MAX);

  constructor(budget: ByteBudget) {
    this.#pools = [
      new Slab(CAPACITY[SHORT_LIST], budget),
      new Slab(CAPACITY[LONG_LIST], budget),
      new Slab(1 + LEVELS * ROW_WORDS, budget),
    ];
  }

  /** The words of a list or row, of which the first is at `placeOf`. */
  wordsOf(set: number): Uint32Array {
    return this.#poolOf(set).chunkOf(set & ID_MASK);
  }

  placeOf(set: number): number {
    return this.#poolOf(set).placeOf(set & ID_MASK);
  }

  /** Members that a list has room for; it ends there, or before a 0. */
  capacityOf(set: number): number {
    return CAPACITY[set >>> KIND_SHIFT]!;
  }

  /** A bit per level on which the worker has the block; 0: it does not have it. */
  levelsOf(set: number, worker: WorkerNumber): number {
    const kind = set >>> KIND_SHIFT;
    if (kind === INLINE) {
      const first = set & MEMBER_MASK;
      if (first >>> LEVEL_BITS === worker) return first & LEVEL_MASK;
      const second = (set >>> MEMBER_BITS) & MEMBER_MASK;
      return second >>> LEVEL_BITS === worker ? second & LEVEL_MASK : 0;
    }
    const words = this.wordsOf(set);
    const place = this.placeOf(set);
    if (kind === ROW) return rowLevels(words, place, worker);
    for (let at = place; at < place + CAPACITY[kind]! && words[at] !== 0; at++) {
      if (words[at]! >>> LEVEL_BITS === worker) return words[at]! & LEVEL_MASK;
    }
    return 0;
  }

  /** The set with a worker on other levels, 0 for none; -1: the budget has no room for it. */
  withLevels(set: number, worker: WorkerNumber, levels: number): number {
    const kind = set >>> KIND_SHIFT;
    if (kind === INLINE) return this.#changeInline(set, worker, levels);
    const words = this.wordsOf(set);
    const place = this.placeOf(set);
    const count =
      kind === ROW
        ? changeRow(words, place, worker, levels)
        : changeList(words.subarray(place, place + CAPACITY[kind]!), worker, levels);
    if (count < 0) return this.#enlarged(set, worker * 16 + levels);
    return count <= SHRINKS_AT[kind]! ? this.#shrunk(set, count) : set;
  }

  /** Frees what a set takes beside its word. */
  release(set: number): void {
    if (set >>> KIND_SHIFT !== INLINE) this.#poolOf(set).release(set & ID_MASK);
  }

  #poolOf(set: number): Slab {
    return this.#pools[(set >>> KIND_SHIFT) - 1]!;
  }

  #changeInline(set: number, worker: WorkerNumber, levels: number): number {
    const first = set & MEMBER_MASK;
    const second = set >>> MEMBER_BITS;
    const member = levels === 0 ? 0 : worker * 16 + levels;
    if (first !== 0 && first >>> LEVEL_BITS === worker) return pair(member, second);
    if (second !== 0 && second >>> LEVEL_BITS === worker) return pair(first, member);
    if (member === 0) return set;
    return second === 0 ? pair(first, member) : this.#enlarged(set, member);
  }

  /** A set of the next kind, with one more member; -1: no room. */
  #enlarged(set: number, member: number): number {
    const members = this.#membersOf(set);
    members[this.#count++] = member;
    return this.#moved(set, (set >>> KIND_SHIFT) + 1);
  }

  /** The set as one of the kind below; unchanged where there is no room for it. */
  #shrunk(set: number, count: number): number {
    const members = this.#membersOf(set);
    if (set >>> KIND_SHIFT !== SHORT_LIST) {
      const moved = this.#moved(set, (set >>> KIND_SHIFT) - 1);
      return moved < 0 ? set : moved;
    }
    this.release(set);
    return pair(count > 0 ? members[0]! : 0, count > 1 ? members[1]! : 0);
  }

  /** Of the members in `#scratch`, of which there are `#count`. */
  #count = 0;

  #moved(set: number, kind: number): number {
    const pool = this.#pools[kind - 1]!;
    const id = pool.allocate();
    if (id < 0) return -1;
    const words = pool.chunkOf(id);
    const place = pool.placeOf(id);
    for (let at = 0; at < this.#count; at++) {
      const member = this.#scratch[at]!;
      if (kind === ROW) changeRow(words, place, member >>> LEVEL_BITS, member & LEVEL_MASK);
      else words[place + at] = member;
    }
    this.release(set);
    return ((kind << KIND_SHIFT) | id) >>> 0;
  }

  /** Copies a set's members to `#scratch`. */
  #membersOf(set: number): Uint32Array {
    const members = this.#scratch;
    const kind = set >>> KIND_SHIFT;
    this.#count = 0;
    if (kind === INLINE) {
      for (const member of [set & MEMBER_MASK, set >>> MEMBER_BITS]) {
        if (member !== 0) members[this.#count++] = member;
      }
      return members;
    }
    const words = this.wordsOf(set);
    const place = this.placeOf(set);
    for (let at = 0; at < CAPACITY[kind]!; at++) {
      const member = kind === ROW ? at * 16 + rowLevels(words, place, at) : words[place + at]!;
      if ((member & LEVEL_MASK) !== 0) members[this.#count++] = member;
    }
    return members;
  }
}

/** Two members in a word, the smaller one first: equal sets are equal words. */
function pair(one: number, other: number): number {
  if (one === 0 || other === 0) return one | other;
  return one < other ? one | (other << MEMBER_BITS) : other | (one << MEMBER_BITS);
}

function rowLevels(words: Uint32Array, place: number, worker: WorkerNumber): number {
  const at = place + 1 + (worker >>> 5) * LEVELS;
  const shift = worker & 31;
  return (
    ((words[at]! >>> shift) & 1) |
    (((words[at + 1]! >>> shift) & 1) << 1) |
    (((words[at + 2]! >>> shift) & 1) << 2) |
    (((words[at + 3]! >>> shift) & 1) << 3)
  );
}

/** Sets a worker's levels in a row; the number of members then. */
function changeRow(words: Uint32Array, place: number, worker: number, levels: number): number {
  const before = rowLevels(words, place, worker);
  const bit = 1 << (worker & 31);
  for (let level = 0; level < LEVELS; level++) {
    const at = place + 1 + (worker >>> 5) * LEVELS + level;
    words[at] = (levels >>> level) & 1 ? words[at]! | bit : words[at]! & ~bit;
  }
  const count = words[place]! + (levels === 0 ? 0 : 1) - (before === 0 ? 0 : 1);
  words[place] = count;
  return count;
}

/** Sets a worker's levels in a list; the number of members then; -1: it is full, and unchanged. */
function changeList(list: Uint32Array, worker: WorkerNumber, levels: number): number {
  let place = -1;
  let count = 0;
  for (; count < list.length && list[count] !== 0; count++) {
    if (list[count]! >>> LEVEL_BITS === worker) place = count;
  }
  if (levels === 0) {
    if (place < 0) return count;
    list[place] = list[count - 1]!;
    list[count - 1] = 0;
    return count - 1;
  }
  if (place < 0) {
    if (count === list.length) return -1;
    place = count++;
  }
  list[place] = worker * 16 + levels;
  return count;
}
