/**
 * A hash table of nodes under 64-bit names, which are random already. A node lies in its slot, so
 * that a look touches one line of memory. Linear probing; a removal moves those behind it up. The
 * table is in segments that grow one by one: no growth takes long.
 */
import type { ByteBudget } from "./byte-budget.ts";

/** Words of a slot: the name's halves, of which the low one is never 0, and two more. */
const WORD_BITS = 2;
const WORDS = 1 << WORD_BITS;
const SEGMENT_BITS = 6;
const SEGMENTS = 1 << SEGMENT_BITS;
const FIRST_SLOTS = 8;
/** A segment doubles when more than this part of its slots would be in use. */
const LOAD_MAX = 0.8;
/** Where the budget has no room for that, so many may be; one slot must be empty. */
const LOAD_LIMIT = 0.95;
/** Segments beyond this part will have to double, unless their share of the nodes falls. */
const LOAD_SOON = 0.5;

const SLOT_BITS = 25;
const SLOT_MASK = (1 << SLOT_BITS) - 1;

export class NodeTable {
  readonly #budget: ByteBudget;
  readonly #segments: Uint32Array[];
  readonly #used = new Uint32Array(SEGMENTS);
  #count = 0;
  readonly #seen = new Uint32Array(1);

  constructor(budget: ByteBudget) {
    this.#budget = budget;
    budget.take(SEGMENTS * FIRST_SLOTS * WORDS * 4);
    this.#segments = Array.from({ length: SEGMENTS }, () => new Uint32Array(FIRST_SLOTS * WORDS));
    budget.keepFor(() => this.#foreseen());
  }

  get count(): number {
    return this.#count;
  }

  /** The words that a place lies in. */
  wordsOf(place: number): Uint32Array {
    return this.#segments[place >>> SLOT_BITS]!;
  }

  /** Where they begin. */
  offsetOf(place: number): number {
    return (place & SLOT_MASK) << WORD_BITS;
  }

  /** The place of a name, valid until the next insertion or removal; -1: it is not there. */
  find(low: number, high: number): number {
    const segment = high >>> (32 - SEGMENT_BITS);
    const words = this.#segments[segment]!;
    const mask = words.length - 1;
    for (let at = (low << WORD_BITS) & mask; ; at = (at + WORDS) & mask) {
      const found = words[at]!;
      if (found === 0) return -1;
      if (found === low && words[at + 1] === high) return placeOf(segment, at);
    }
  }

  /**
   * Brings the slots of several names near. These loads wait for nothing, so that many are under
   * way at once; `find` waits for each, since what it does next depends on what is there.
   */
  warm(keys: Uint32Array, from: number, until: number): void {
    let seen = 0;
    for (let key = from * 2; key < until * 2; key += 2) {
      const words = this.#segments[keys[key + 1]! >>> (32 - SEGMENT_BITS)]!;
      seen ^= words[(keys[key]! << WORD_BITS) & (words.length - 1)]!;
    }
    // Kept, so that the loads are.
    this.#seen[0] = seen;
  }

  /** A new node of zeros under a name that is not there; -1: the budget has no room. */
  insert(low: number, high: number): number {
    const segment = high >>> (32 - SEGMENT_BITS);
    if (!this.#makeSlot(segment)) return -1;
    const at = put(this.#segments[segment]!, low, high);
    this.#used[segment] = this.#used[segment]! + 1;
    this.#count++;
    return placeOf(segment, at);
  }

  remove(place: number): void {
    const segment = place >>> SLOT_BITS;
    closeGap(this.#segments[segment]!, this.offsetOf(place));
    this.#used[segment] = this.#used[segment]! - 1;
    this.#count--;
  }

  /** Room for one more node in a segment; false: the budget has none. */
  #makeSlot(segment: number): boolean {
    const words = this.#segments[segment]!;
    const slots = words.length / WORDS;
    const used = this.#used[segment]! + 1;
    if (used <= slots * LOAD_MAX) return true;
    if (slots > SLOT_MASK / 2 || !this.#budget.takeForeseen(words.length * 4)) {
      return used <= slots * LOAD_LIMIT;
    }
    const larger = new Uint32Array(words.length * 2);
    for (let at = 0; at < words.length; at += WORDS) {
      if (words[at] === 0) continue;
      const to = put(larger, words[at]!, words[at + 1]!);
      larger[to + 2] = words[at + 2]!;
      larger[to + 3] = words[at + 3]!;
    }
    this.#segments[segment] = larger;
    return true;
  }

  /** Bytes for segments to double in that will do so soon. */
  #foreseen(): number {
    let bytes = 0;
    for (let segment = 0; segment < SEGMENTS; segment++) {
      const { length } = this.#segments[segment]!;
      if (this.#used[segment]! > (length / WORDS) * LOAD_SOON) bytes += length * 4;
    }
    return bytes;
  }
}

function placeOf(segment: number, at: number): number {
  return (segment << SLOT_BITS) | (at >>> WORD_BITS);
}

/** Writes a name to the first free slot; where. */
function put(words: Uint32Array, low: number, high: number): number {
  const mask = words.length - 1;
  let at = (low << WORD_BITS) & mask;
  while (words[at] !== 0) at = (at + WORDS) & mask;
  words[at] = low;
  words[at + 1] = high;
  return at;
}

/** Empties a slot; those behind it that were displaced over it move up (Knuth, 6.4, R). */
function closeGap(words: Uint32Array, gap: number): void {
  const mask = words.length - 1;
  for (let at = gap; ; ) {
    at = (at + WORDS) & mask;
    if (words[at] === 0) break;
    const home = (words[at]! << WORD_BITS) & mask;
    if (((at - home) & mask) < ((at - gap) & mask)) continue;
    for (let word = 0; word < WORDS; word++) words[gap + word] = words[at + word]!;
    gap = at;
  }
  for (let word = 0; word < WORDS; word++) words[gap + word] = 0;
}
