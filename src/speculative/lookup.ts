/**
 * Lookup: the continuation of a sequence is looked up in texts that it may repeat, its own prompt
 * and output first. Needs no weights. Source: prompt lookup decoding (Saxena 2023), and the rule of
 * SuffixDecoding (Oliaro et al. 2024) that the longest match is the best.
 */
import { intAt } from "#base";
import type { DraftShape } from "./draft-length.ts";
import type { EarlierMatch } from "./earlier-outputs.ts";

/** Tokens of a match that are hashed: shorter matches are not found. */
const gramTokens = 2;
/** Earlier places that are compared for one draft, the newest first. */
const placesMax = 16;
/** A match of this many tokens is as good as a longer one. */
const matchTokensMax = 32;
const firstCapacity = 64;

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
  #tokens: Int32Array;
  /** By place: the next older place whose pair has the same hash; -1: none. */
  #older: Int32Array;
  /** By hash: the newest place. Its length is a power of two. */
  #newest: Int32Array;
  #length = 0;

  /** Empty, with room for `capacity` tokens before it grows. */
  constructor(capacity: number = firstCapacity) {
    const room = 2 ** Math.ceil(Math.log2(Math.max(capacity, firstCapacity)));
    this.#tokens = new Int32Array(room);
    this.#older = new Int32Array(room);
    this.#newest = new Int32Array(room).fill(-1);
  }

  /** A text of these tokens. */
  static of(tokens: Int32Array): LookupText {
    const text = new LookupText(tokens.length);
    text.append(tokens);
    return text;
  }

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

  /** The newest places whose pair is the end of `tail`, each with what matches before it. */
  matches(tail: Int32Array): Match[] {
    const end = tail.length;
    const found: Match[] = [];
    if (end < gramTokens) return found;
    let place = this.#first(intAt(tail, end - 2), intAt(tail, end - 1));
    for (let tried = 0; place >= 0 && tried < placesMax; tried++) {
      const next = place + gramTokens;
      const matched = next < this.#length ? this.#matched(tail, next) : 0;
      if (matched >= gramTokens) found.push({ next, matched });
      place = intAt(this.#older, place);
    }
    return found;
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

/** What outputs of earlier requests have behind the end of `tail`, at most `most` tokens. */
export type EarlierLookup = (tail: Int32Array, most: number) => EarlierMatch | null;

/**
 * What all sequences of a request look up in: their prompt, and what their output is predicted to
 * be. Each text is indexed once, at the first draft, however many sequences there are. Outputs of
 * earlier requests are indexed already.
 */
export class LookupSource {
  readonly promptLength: number;
  readonly #promptTokens: Int32Array;
  readonly #predictedTokens: Int32Array | null;
  /** Null: there are none to look up in. */
  readonly earlier: EarlierLookup | null;
  #prompt: LookupText | null = null;
  #predicted: LookupText | null = null;

  /** The arrays are shared, and must not change any more. */
  constructor(
    promptTokens: Int32Array,
    predictedTokens: Int32Array | null = null,
    earlier: EarlierLookup | null = null,
  ) {
    this.promptLength = promptTokens.length;
    this.earlier = earlier;
    this.#promptTokens = promptTokens;
    this.#predictedTokens = predictedTokens;
  }

  get prompt(): LookupText {
    this.#prompt ??= LookupText.of(this.#promptTokens);
    return this.#prompt;
  }

  /** Null: nothing is predicted. */
  get predicted(): LookupText | null {
    if (this.#predictedTokens === null) return null;
    this.#predicted ??= LookupText.of(this.#predictedTokens);
    return this.#predicted;
  }
}

/** Looks up what follows one sequence. Each sequence has its own. */
export class Lookup {
  readonly #source: LookupSource;
  /** The output, behind the end of the prompt, so that matches may begin there; null before use. */
  #text: LookupText | null = null;
  readonly #ownStart: number;
  /** Where the prediction goes on, if the output has followed it so far. */
  #predictedNext = 0;
  #isEarlier = false;
  #matched = 0;

  constructor(source: LookupSource) {
    this.#source = source;
    this.#ownStart = Math.max(0, source.promptLength - matchTokensMax);
  }

  /** Whether the likeliest continuation of the last draft is from an earlier output. */
  get isEarlier(): boolean {
    return this.#isEarlier;
  }

  /** Tokens that match before the likeliest continuation of the last draft, which has some. */
  get matched(): number {
    return this.#matched;
  }

  /**
   * Continuations of `text`, the sequence so far, whose first tokens are the prompt; the likeliest
   * first, at most `width`, which may begin alike. The sequence may only have grown since the last
   * call. Others than the first have half of the length at most: they rarely are what follows.
   */
  draft(text: TokenSource, { length, width }: DraftShape): Int32Array[] {
    const { promptLength, prompt, predicted } = this.#source;
    this.#text ??= new LookupText();
    const written = this.#text;
    const known = this.#ownStart + written.length;
    written.append(text.view(known, text.length));
    this.#predictedNext += text.length - Math.max(known, promptLength);
    const tail = text.view(Math.max(0, text.length - matchTokensMax), text.length);
    const best = this.#best(tail, length, { prompt, predicted, written });
    if (best === null || width === 1) return best === null ? [] : [best];
    const others = [...(predicted === null ? [] : [predicted]), written, prompt]
      .flatMap((source) => source.matches(tail).map((match) => ({ source, ...match })))
      .sort((one, other) => other.matched - one.matched);
    const branches = [best];
    for (const { source, next } of others) {
      if (branches.length === width) break;
      const tokens = source.from(next, Math.ceil(length / 2), source === written);
      if (branches.every((branch) => !beginsWith(branch, tokens))) branches.push(tokens);
    }
    return branches;
  }

  /** The continuation behind the longest match; null: nothing is found. */
  #best(tail: Int32Array, most: number, { prompt, predicted, written }: Texts): Int32Array | null {
    const expected = predicted?.find(tail, this.#predictedNext) ?? null;
    const own = written.find(tail, 0);
    const given = prompt.find(tail, 0);
    if (expected !== null) this.#predictedNext = expected.next;
    const longest = Math.max(own?.matched ?? 0, given?.matched ?? 0);
    const nearest = Math.max(longest, expected?.matched ?? 0);
    // The sequence itself and its prediction are the better sources of equally long matches.
    const isOpen = nearest < matchTokensMax;
    const earlier = isOpen ? (this.#source.earlier?.(tail, most) ?? null) : null;
    this.#isEarlier = earlier !== null && earlier.matched > nearest;
    // A prediction is followed from its first token on, where nothing matches yet.
    this.#matched = Math.max(1, this.#isEarlier ? (earlier?.matched ?? 0) : nearest);
    if (earlier !== null && this.#isEarlier) return earlier.tokens;
    if (predicted !== null && expected !== null && expected.matched >= longest) {
      return predicted.from(expected.next, most, false);
    }
    if (own !== null && own.matched === longest) return written.from(own.next, most, true);
    return given === null ? null : prompt.from(given.next, most, false);
  }
}

/** What is looked up in. */
interface Texts {
  readonly prompt: LookupText;
  readonly predicted: LookupText | null;
  readonly written: LookupText;
}

function beginsWith(tokens: Int32Array, others: Int32Array): boolean {
  return others.every((token, place) => tokens[place] === token);
}
