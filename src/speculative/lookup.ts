/**
 * Lookup: the continuation of a sequence is looked up in texts that it may repeat, its own prompt
 * and output first. Needs no weights. Source: prompt lookup decoding (Saxena 2023), and the rule of
 * SuffixDecoding (Oliaro et al. 2024) that the longest match is the best.
 */
import { intAt } from "#base";

/** Tokens of a match that are hashed: shorter matches are not found. */
const gramTokens = 2;
/** Earlier places that are compared for one draft, the newest first. */
const placesMax = 16;
/** A match of this many tokens is as good as a longer one. */
const matchTokensMax = 32;
const firstCapacity = 256;

/** A place in a text, and how many tokens before it match the end of another text. */
export interface Match {
  readonly next: number;
  readonly matched: number;
}

/** A growing text. */
export interface TokenSource {
  readonly length: number;
  view(start: number, end: number): Int32Array;
}

/**
 * An append-only text, and the places of all pairs of tokens in it, as chains of equal hashes from
 * the newest place to older ones. Appending costs a few operations for each token.
 */
export class LookupText {
  #tokens = new Int32Array(firstCapacity);
  /** By place: the next older place whose pair has the same hash; -1: none. */
  #older = new Int32Array(firstCapacity);
  /** By hash: the newest place. */
  #newest = new Int32Array(firstCapacity).fill(-1);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  append(tokens: ArrayLike<number>): void {
    this.#reserve(this.#length + tokens.length);
    for (let index = 0; index < tokens.length; index++) {
      this.#tokens[this.#length++] = tokens[index] ?? 0;
      if (this.#length >= gramTokens) this.#link(this.#length - gramTokens);
    }
  }

  /**
   * The longest match with the end of `tail`; of equally long ones `expected`, the place where the
   * last match goes on, else the newest. Null: none has two tokens. A match of fewer counts where
   * it begins with the text and ends at `expected`.
   */
  find(tail: Int32Array, expected: number): Match | null {
    let best: Match | null = this.#expectedMatch(tail, expected);
    const end = tail.length;
    if (end < gramTokens) return best;
    let place = this.#first(intAt(tail, end - 2), intAt(tail, end - 1));
    for (let tried = 0; place >= 0 && tried < placesMax; tried++) {
      const next = place + gramTokens;
      const matched = next < this.#length ? this.#matched(tail, next) : 0;
      if (matched >= gramTokens && matched > (best?.matched ?? 0)) best = { next, matched };
      if ((best?.matched ?? 0) >= matchTokensMax) break;
      place = intAt(this.#older, place);
    }
    return best;
  }

  /**
   * At most `most` tokens from place `next` on. Where the text ends it goes on with these tokens,
   * as if they had been appended, if `repeats`: a text that repeats a pattern goes on with it.
   */
  from(next: number, most: number, repeats: boolean): Int32Array {
    const there = this.#length - next;
    if (!repeats || there >= most) return this.#tokens.slice(next, next + Math.min(most, there));
    return Int32Array.from(
      { length: most },
      (_, place) => this.#tokens[next + (place % there)] ?? 0,
    );
  }

  #expectedMatch(tail: Int32Array, expected: number): Match | null {
    if (expected <= 0 || expected >= this.#length) return null;
    const matched = this.#matched(tail, expected);
    return matched >= gramTokens || matched === expected ? { next: expected, matched } : null;
  }

  /** How many tokens before place `next` equal the end of `tail`. */
  #matched(tail: Int32Array, next: number): number {
    const most = Math.min(matchTokensMax, next, tail.length);
    let matched = 0;
    while (matched < most && this.#tokens[next - 1 - matched] === tail[tail.length - 1 - matched]) {
      matched++;
    }
    return matched;
  }

  #first(one: number, other: number): number {
    return intAt(this.#newest, this.#hash(one, other));
  }

  #link(place: number): void {
    const hash = this.#hash(intAt(this.#tokens, place), intAt(this.#tokens, place + 1));
    this.#older[place] = intAt(this.#newest, hash);
    this.#newest[hash] = place;
  }

  /** Multiplicative hashing (Knuth), as many bits as `#newest` is long: a power of two. */
  #hash(one: number, other: number): number {
    const mixed = Math.imul(Math.imul(one, 0x9e3779b1) ^ other, 0x85ebca6b);
    return (mixed ^ (mixed >>> 15)) & (this.#newest.length - 1);
  }

  #reserve(length: number): void {
    if (length <= this.#tokens.length) return;
    let capacity = this.#tokens.length;
    while (capacity < length) capacity *= 2;
    const tokens = new Int32Array(capacity);
    tokens.set(this.#tokens.subarray(0, this.#length));
    this.#tokens = tokens;
    this.#older = new Int32Array(capacity);
    this.#newest = new Int32Array(capacity).fill(-1);
    for (let place = 0; place + gramTokens <= this.#length; place++) this.#link(place);
  }
}

/** Looks up what follows one sequence. Each sequence has its own. */
export class Lookup {
  readonly #own = new LookupText();
  /** What the output is predicted to be; null: nothing is. */
  readonly #predicted: LookupText | null = null;
  /** Where the prediction goes on, if the output has followed it so far. */
  #predictedNext = 0;

  /** `prediction`: a text that the output is likely to repeat, from its beginning or in parts. */
  constructor(prediction: Int32Array | null = null) {
    if (prediction === null || prediction.length === 0) return;
    this.#predicted = new LookupText();
    this.#predicted.append(prediction);
  }

  /**
   * At most `most` tokens behind `text`, a sequence of which `generated` tokens were generated;
   * null: nothing is found. The sequence may only have grown since the last call.
   */
  draft(text: TokenSource, generated: number, most: number): Int32Array | null {
    const grown = Math.min(generated, text.length - this.#own.length);
    this.#own.append(text.view(this.#own.length, text.length));
    this.#predictedNext += grown;
    const tail = text.view(Math.max(0, text.length - matchTokensMax), text.length);
    const predicted = this.#predicted?.find(tail, this.#predictedNext) ?? null;
    const own = this.#own.find(tail, 0);
    if (predicted !== null) this.#predictedNext = predicted.next;
    if (predicted !== null && predicted.matched >= (own?.matched ?? 0)) {
      return this.#predicted?.from(predicted.next, most, false) ?? null;
    }
    return own === null ? null : this.#own.from(own.next, most, true);
  }
}
