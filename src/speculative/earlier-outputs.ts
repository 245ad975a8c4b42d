/**
 * Outputs of earlier requests, to look up in. Source: SuffixDecoding (Oliaro et al. 2024), whose
 * suffix tree over past outputs this stands for: the longest match, and among its places the
 * continuation that most of them have.
 *
 * Outputs are kept apart by scope, as the cache keeps its blocks apart: a text is never drafted for
 * a request of another scope, whose speed would tell of it.
 */
import { intAt } from "#base";

/** Tokens of a match that are hashed: shorter matches are not found. */
const GRAM_TOKENS = 4;
/** A match of this many tokens is as good as a longer one. */
const MATCH_TOKENS_MAX = 32;
/** Places that are compared for one draft, the newest first. */
const PLACES_MAX = 32;
/** A draft ends where fewer of the places than this share go on alike. */
const SHARE_MIN = 0.3;
/** Drafted tokens for each matched one, at most. */
const TOKENS_PER_MATCHED = 2;
/** No scope has more than one of so many parts of the memory: one client cannot fill it alone. */
const SCOPES_FULL = 4;
/** Bytes of a token: itself, the next older place, and its share of the newest places. */
const TOKEN_BYTES = 12;
/** Of a scope beside its tokens. */
const SCOPE_BYTES = 1024;
const FIRST_CAPACITY = 256;
/** Stands behind each output: no match goes over it. */
const END = -1;

/** Tokens that earlier outputs continue a text with. */
export interface EarlierMatch {
  readonly tokens: Int32Array;
  /** Tokens before it that are equal. */
  readonly matched: number;
}

/** Outputs of one scope, one behind the other, up to a number of tokens. */
class OutputText {
  readonly #capacityMax: number;
  #tokens = new Int32Array(FIRST_CAPACITY);
  /** By place: the next older place whose first tokens have the same hash; -1: none. */
  #older = new Int32Array(FIRST_CAPACITY);
  /** By hash: the newest place. */
  #newest = new Int32Array(FIRST_CAPACITY).fill(-1);
  #length = 0;

  /** `capacityMax`: a power of two. */
  constructor(capacityMax: number) {
    this.#capacityMax = capacityMax;
  }

  get bytes(): number {
    return TOKEN_BYTES * this.#tokens.length;
  }

  /** Whether so many more tokens fit. */
  fits(count: number): boolean {
    return this.#length + count + 1 <= this.#capacityMax;
  }

  append(output: Int32Array): void {
    this.#reserve(this.#length + output.length + 1);
    const first = this.#length;
    this.#tokens.set(output, first);
    this.#length += output.length;
    this.#tokens[this.#length++] = END;
    this.#link(first);
  }

  /** Adds the places whose gram is the end of `tail`, as far as there is room for more. */
  collect(tail: Int32Array, places: Place[]): void {
    let next = intAt(this.#newest, this.#hash(tail, tail.length - GRAM_TOKENS));
    for (let tried = 0; next >= 0 && tried < PLACES_MAX; tried++) {
      const end = next + GRAM_TOKENS;
      const matched = this.#matched(tail, end);
      if (matched >= GRAM_TOKENS && places.length < PLACES_MAX) {
        places.push({ text: this, next: end, matched });
      }
      next = intAt(this.#older, next);
    }
  }

  at(place: number): number {
    return place < this.#length ? intAt(this.#tokens, place) : END;
  }

  #matched(tail: Int32Array, end: number): number {
    const most = Math.min(MATCH_TOKENS_MAX, end, tail.length);
    let matched = 0;
    while (matched < most && this.#tokens[end - 1 - matched] === tail[tail.length - 1 - matched]) {
      matched++;
    }
    return matched;
  }

  /** Notes the grams of an output from place `first` on; those at its end have an end in them. */
  #link(first: number): void {
    for (let place = first; place + GRAM_TOKENS < this.#length; place++) {
      const hash = this.#hash(this.#tokens, place);
      this.#older[place] = intAt(this.#newest, hash);
      this.#newest[hash] = place;
    }
  }

  /** Multiplicative hashing (Knuth), as many bits as `#newest` is long: a power of two. */
  #hash(tokens: Int32Array, first: number): number {
    let mixed = 0;
    for (let place = first; place < first + GRAM_TOKENS; place++) {
      mixed = Math.imul(mixed ^ intAt(tokens, place), 0x9e3779b1);
      mixed ^= mixed >>> 15;
    }
    return mixed & (this.#newest.length - 1);
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
    this.#link(0);
  }
}

/** A place behind a match. */
interface Place {
  readonly text: OutputText;
  readonly next: number;
  readonly matched: number;
}

/** Of one scope: the outputs that are being collected, and those before, which are dropped next. */
interface Scope {
  readonly name: string;
  young: OutputText;
  old: OutputText | null;
  bytes: number;
}

/** All scopes together, within a number of bytes; those that were not used for longest go first. */
export class EarlierOutputs {
  readonly #bytesMax: number;
  /** Most tokens of one text of a scope, a power of two. */
  readonly #textTokensMax: number;
  /** The least recently used first. */
  readonly #scopes = new Map<string, Scope>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    // A scope has two texts.
    const most = Math.floor(bytesMax / SCOPES_FULL / 2 / TOKEN_BYTES);
    this.#textTokensMax = 2 ** Math.floor(Math.log2(Math.max(1, most)));
  }

  /** Memory that is used, at most `bytesMax`. */
  get bytes(): number {
    return this.#bytes;
  }

  get scopes(): number {
    return this.#scopes.size;
  }

  /** Keeps an output, or the end of one that is too long. Costs a bounded time for each token. */
  add(name: string, output: Int32Array): void {
    const tokens = output.subarray(Math.max(0, output.length + 1 - this.#textTokensMax));
    if (this.#textTokensMax < FIRST_CAPACITY || tokens.length <= GRAM_TOKENS) return;
    const scope = this.#used(name) ?? this.#opened(name);
    if (!scope.young.fits(tokens.length)) {
      scope.old = scope.young;
      scope.young = new OutputText(this.#textTokensMax);
    }
    scope.young.append(tokens);
    this.#count(scope);
    for (const oldest of this.#scopes.values()) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#scopes.delete(oldest.name);
      this.#bytes -= oldest.bytes;
    }
  }

  /**
   * What the longest match with the end of `tail` goes on with in most places, at most `most`
   * tokens, and not more than twice as many as match; null: no four tokens match.
   */
  find(name: string, tail: Int32Array, most: number): EarlierMatch | null {
    const scope = tail.length < GRAM_TOKENS ? null : this.#used(name);
    if (scope === null) return null;
    const places: Place[] = [];
    scope.young.collect(tail, places);
    scope.old?.collect(tail, places);
    let matched = 0;
    for (const place of places) matched = Math.max(matched, place.matched);
    const longest = places.filter((place) => place.matched === matched);
    const tokens = continuationOf(longest, Math.min(most, TOKENS_PER_MATCHED * matched));
    return tokens.length === 0 ? null : { tokens, matched };
  }

  /** The scope, which is the last used one now; null: there is none. */
  #used(name: string): Scope | null {
    const found = this.#scopes.get(name);
    if (found === undefined) return null;
    this.#scopes.delete(name);
    this.#scopes.set(name, found);
    return found;
  }

  #opened(name: string): Scope {
    const scope = { name, young: new OutputText(this.#textTokensMax), old: null, bytes: 0 };
    this.#scopes.set(name, scope);
    return scope;
  }

  #count(scope: Scope): void {
    const { name, young, old } = scope;
    const bytes = SCOPE_BYTES + 2 * name.length + young.bytes + (old?.bytes ?? 0);
    this.#bytes += bytes - scope.bytes;
    scope.bytes = bytes;
  }
}

/** Goes on with the token that most places have, while these are enough of all. */
function continuationOf(places: readonly Place[], most: number): Int32Array {
  const found: number[] = [];
  let going = places;
  while (found.length < most && going.length > 0) {
    const depth = found.length;
    const counts = new Map<number, number>();
    for (const { text, next } of going) {
      const token = text.at(next + depth);
      if (token !== END) counts.set(token, (counts.get(token) ?? 0) + 1);
    }
    // Of equal ones the first, which is the newest.
    let [best, count] = [END, 0];
    for (const [token, seen] of counts) if (seen > count) [best, count] = [token, seen];
    if (count === 0 || count < SHARE_MIN * places.length) break;
    found.push(best);
    going = going.filter(({ text, next }) => text.at(next + depth) === best);
  }
  return Int32Array.from(found);
}
