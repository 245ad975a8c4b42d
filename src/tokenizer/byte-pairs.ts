/**
 * Byte-pair encoding of one short word, on ids. Source: R. Sennrich et al. 2016, "Neural machine
 * translation of rare words with subword units".
 */
import { byteLevelCharacter } from "./byte-alphabet.ts";
import { isObject } from "./tokenizer-files.ts";

/** Longest word, in bytes: the work grows with the square of it. */
export const WORD_BYTES_MAX = 64;

const NO_RANK = 0x7fffffff;

/** The merges of a byte-level vocabulary, by the two ids that they join. */
export class BytePairs {
  /** By byte. */
  readonly #byteIds: Int32Array;
  /** Open addressing, [slots, 4]: left id + 1, right id, rank, joined id. */
  readonly #table: Int32Array;
  readonly #mask: number;
  /** Of the word that is encoded now. */
  readonly #ids = new Int32Array(WORD_BYTES_MAX);
  /** By place: the rank of the pair that begins there, and what it becomes. */
  readonly #ranks = new Int32Array(WORD_BYTES_MAX);
  readonly #joined = new Int32Array(WORD_BYTES_MAX);

  private constructor(byteIds: Int32Array, merges: number) {
    this.#byteIds = byteIds;
    let slots = 16;
    while (slots < 2 * merges) slots *= 2;
    this.#table = new Int32Array(4 * slots);
    this.#mask = slots - 1;
  }

  /**
   * The merges of a tokenizer.json's model; null where its words may have tokens in another way: a
   * byte without a token, a merge without one, a suffix, a dropout.
   */
  static of(model: unknown, idOf: (token: string) => number | undefined): BytePairs | null {
    if (!isObject(model) || !Array.isArray(model.merges) || !isPlain(model)) return null;
    const bytes = Array.from({ length: 256 }, (_, byte) => idOf(byteLevelCharacter(byte)) ?? -1);
    if (bytes.includes(-1)) return null;
    const pairs = new BytePairs(Int32Array.from(bytes), model.merges.length);
    for (const [rank, merge] of model.merges.entries()) {
      const [left, right] = Array.isArray(merge) ? merge : String(merge).split(" ", 2);
      if (typeof left !== "string" || typeof right !== "string") return null;
      const [a, b, joined] = [idOf(left), idOf(right), idOf(left + right)];
      if (a === undefined || b === undefined || joined === undefined) return null;
      pairs.#put(a, b, rank, joined);
    }
    return pairs;
  }

  /** The tokens of a word of 1 to `WORD_BYTES_MAX` bytes. */
  encode(word: Uint8Array): Int32Array {
    const [ids, ranks, joined] = [this.#ids, this.#ranks, this.#joined];
    let length = word.length;
    for (let place = 0; place < length; place++) ids[place] = this.#byteIds[word[place] ?? 0] ?? 0;
    for (let place = 0; place < length - 1; place++) this.#rank(place);
    for (;;) {
      let best = 0;
      for (let place = 1; place < length - 1; place++) {
        if ((ranks[place] ?? 0) < (ranks[best] ?? 0)) best = place;
      }
      if (length < 2 || ranks[best] === NO_RANK) return ids.slice(0, length);
      ids[best] = joined[best] ?? 0;
      length--;
      ids.copyWithin(best + 1, best + 2, length + 1);
      ranks.copyWithin(best + 1, best + 2, length);
      joined.copyWithin(best + 1, best + 2, length);
      if (best < length - 1) this.#rank(best);
      if (best > 0) this.#rank(best - 1);
    }
  }

  /** Looks up the pair that begins at a place. */
  #rank(place: number): void {
    const slot = this.#slotOf(this.#ids[place] ?? 0, this.#ids[place + 1] ?? 0);
    const isThere = this.#table[slot] !== 0;
    this.#ranks[place] = isThere ? (this.#table[slot + 2] ?? 0) : NO_RANK;
    this.#joined[place] = this.#table[slot + 3] ?? 0;
  }

  /** Of two equal merges the last counts. */
  #put(left: number, right: number, rank: number, joined: number): void {
    const slot = this.#slotOf(left, right);
    this.#table.set([left + 1, right, rank, joined], slot);
  }

  /** Where the pair is, or would be. */
  #slotOf(left: number, right: number): number {
    const table = this.#table;
    const hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
    for (let place = (hash ^ (hash >>> 15)) & this.#mask; ; place = (place + 1) & this.#mask) {
      const slot = 4 * place;
      const known = table[slot];
      if (known === 0 || (known === left + 1 && table[slot + 1] === right)) return slot;
    }
  }
}

/** Whether merges alone make a word's tokens. */
function isPlain(model: { readonly [field: string]: unknown }): boolean {
  const { dropout, continuing_subword_prefix: prefix, end_of_word_suffix: suffix } = model;
  const parts = [dropout, prefix, suffix, model.continuing_subword_suffix];
  return parts.every((part) => part === null || part === undefined || part === "");
}
