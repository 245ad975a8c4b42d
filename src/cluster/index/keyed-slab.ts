/**
 * A hash table of typed arrays: entries under 64-bit keys. Slots of 8 bytes hold an entry's hash
 * and its number; entries lie in a slab. Linear probing; a removal moves the ones behind it up, so
 * that no tombstones are left. The table is in segments that grow one by one: no growth takes long.
 */
import type { HashSecret } from "./block-namer.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { Slab } from "./slab.ts";

const SEGMENT_BITS = 6;
const SEGMENTS = 1 << SEGMENT_BITS;
const FIRST_SLOTS = 8;
/** A segment doubles when more than this part of its slots would be in use. */
const LOAD_MAX = 0.8;
/** Where the budget has no room for that, so many may be; one slot must be empty. */
const LOAD_LIMIT = 0.95;
/** Segments beyond this part will have to double, unless their share of the entries falls. */
const LOAD_SOON = 0.5;

export class KeyedSlab {
  readonly #slab: Slab;
  readonly #budget: ByteBudget;
  /** Slots of two words: the hash, and the entry's number plus one; 0: empty. */
  readonly #segments: Uint32Array[];
  readonly #used = new Uint32Array(SEGMENTS);
  readonly #secret: HashSecret | null;
  #count = 0;
  readonly #seen = new Uint32Array(1);
  /** Of the key that was looked for last: most are then inserted or removed. */
  #lastHash = 0;
  #lastSlot = 0;

  /**
   * Entries of `words` words, of which 0 and 1 are the key. Keys that strangers choose are mixed
   * with a secret, so that they cannot be made to meet in one slot; null: keys are random already.
   */
  constructor(words: number, budget: ByteBudget, secret: HashSecret | null) {
    this.#slab = new Slab(words, budget);
    this.#budget = budget;
    this.#secret = secret;
    budget.take(SEGMENTS * FIRST_SLOTS * 8);
    this.#segments = Array.from({ length: SEGMENTS }, () => new Uint32Array(FIRST_SLOTS * 2));
    budget.keepFor(() => this.#foreseen());
  }

  get count(): number {
    return this.#count;
  }

  chunkOf(id: number): Uint32Array {
    return this.#slab.chunkOf(id);
  }

  placeOf(id: number): number {
    return this.#slab.placeOf(id);
  }

  /** The entry of a key; -1: there is none. */
  find(low: number, high: number): number {
    return this.findHashed(this.#hash(low, high), low, high);
  }

  /** The same, of a key whose hash `warm` has said. */
  findHashed(hash: number, low: number, high: number): number {
    const slots = this.#segments[hash >>> (32 - SEGMENT_BITS)]!;
    const mask = slots.length - 1;
    this.#lastHash = hash;
    for (let at = (hash << 1) & mask; ; at = (at + 2) & mask) {
      const entry = slots[at + 1]!;
      if (entry === 0) return -1;
      if (slots[at] !== hash) continue;
      const chunk = this.#slab.chunkOf(entry - 1);
      const place = this.#slab.placeOf(entry - 1);
      if (chunk[place] !== low || chunk[place + 1] !== high) continue;
      this.#lastSlot = at;
      return entry - 1;
    }
  }

  /**
   * Brings the slot of a key near without waiting for it, so that those of many keys are under way
   * at once: `find` waits for each. The key's hash.
   */
  warm(low: number, high: number): number {
    const hash = this.#hash(low, high);
    const slots = this.#segments[hash >>> (32 - SEGMENT_BITS)]!;
    // Kept, so that the load is.
    this.#seen[0] = slots[(hash << 1) & (slots.length - 1)]!;
    return hash;
  }

  /** The entry of a hash if it lies in its first slot, else -1: quicker than `find`. */
  guess(hash: number): number {
    const slots = this.#segments[hash >>> (32 - SEGMENT_BITS)]!;
    const at = (hash << 1) & (slots.length - 1);
    return slots[at] === hash ? slots[at + 1]! - 1 : -1;
  }

  /**
   * A new entry of zeros under the key that was looked for last, and was not there; -1: the budget
   * has no room.
   */
  insertSought(low: number, high: number): number {
    const hash = this.#lastHash;
    const segment = hash >>> (32 - SEGMENT_BITS);
    if (!this.#makeSlot(segment)) return -1;
    const id = this.#slab.allocate();
    if (id < 0) return -1;
    const chunk = this.#slab.chunkOf(id);
    const place = this.#slab.placeOf(id);
    chunk[place] = low;
    chunk[place + 1] = high;
    put(this.#segments[segment]!, hash, id + 1);
    this.#used[segment] = this.#used[segment]! + 1;
    this.#count++;
    return id;
  }

  remove(id: number): void {
    let segment = this.#lastHash >>> (32 - SEGMENT_BITS);
    let slots = this.#segments[segment]!;
    let at = this.#lastSlot;
    if (slots[at + 1] !== id + 1) {
      // Another one was looked for last.
      const chunk = this.#slab.chunkOf(id);
      const place = this.#slab.placeOf(id);
      const hash = this.#hash(chunk[place]!, chunk[place + 1]!);
      segment = hash >>> (32 - SEGMENT_BITS);
      slots = this.#segments[segment]!;
      const mask = slots.length - 1;
      at = (hash << 1) & mask;
      while (slots[at + 1] !== id + 1) at = (at + 2) & mask;
    }
    closeGap(slots, at);
    this.#used[segment] = this.#used[segment]! - 1;
    this.#slab.release(id);
    this.#count--;
  }

  /** Bytes for segments to double in that will do so soon. */
  #foreseen(): number {
    let bytes = 0;
    for (let segment = 0; segment < SEGMENTS; segment++) {
      const { length } = this.#segments[segment]!;
      if (this.#used[segment]! > (length >>> 1) * LOAD_SOON) bytes += length * 4;
    }
    return bytes;
  }

  /** Room for one more entry in a segment; false: the budget has none. */
  #makeSlot(segment: number): boolean {
    const slots = this.#segments[segment]!;
    const capacity = slots.length >>> 1;
    const used = this.#used[segment]! + 1;
    if (used <= capacity * LOAD_MAX) return true;
    if (!this.#budget.takeForeseen(slots.length * 4)) return used <= capacity * LOAD_LIMIT;
    const larger = new Uint32Array(slots.length * 2);
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at + 1] !== 0) put(larger, slots[at]!, slots[at + 1]!);
    }
    this.#segments[segment] = larger;
    return true;
  }

  /** Of a key; its top bits say the segment, its lowest ones the slot. */
  #hash(low: number, high: number): number {
    return this.#secret === null ? (low ^ high) >>> 0 : mix(low, high, this.#secret);
  }
}

/** Three rounds of HalfSipHash: enough to spread keys over slots. */
function mix(low: number, high: number, secret: HashSecret): number {
  let v0 = secret[0] | 0;
  let v1 = secret[1] ^ high;
  let v2 = secret[2] | 0;
  let v3 = secret[3] ^ low;
  for (let round = 0; round < 3; round++) {
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
  }
  return (v0 ^ v1 ^ v2 ^ v3) >>> 0;
}

function put(slots: Uint32Array, hash: number, entry: number): void {
  const mask = slots.length - 1;
  let at = (hash << 1) & mask;
  while (slots[at + 1] !== 0) at = (at + 2) & mask;
  slots[at] = hash;
  slots[at + 1] = entry;
}

/** Empties a slot; those behind it that were displaced over it move up (Knuth, 6.4, R). */
function closeGap(slots: Uint32Array, gap: number): void {
  const mask = slots.length - 1;
  let at = gap;
  for (;;) {
    at = (at + 2) & mask;
    if (slots[at + 1] === 0) break;
    const home = (slots[at]! << 1) & mask;
    if (((at - home) & mask) < ((at - gap) & mask)) continue;
    slots[gap] = slots[at]!;
    slots[gap + 1] = slots[at + 1]!;
    gap = at;
  }
  slots[gap + 1] = 0;
}
