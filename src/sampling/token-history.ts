import { assert } from "#base";

/** The tokens of a sequence, and how often each was sampled: the input of penalties. */

const firstCapacity = 64;

/** The distinct tokens of a prompt, in order of their first occurrence. Shared by its sequences. */
export class PromptTokens {
  /** [n]. */
  readonly tokens: Int32Array;
  readonly #places = new Map<number, number>();

  constructor(promptTokens: Iterable<number>) {
    for (const token of promptTokens) {
      if (!this.#places.has(token)) this.#places.set(token, this.#places.size);
    }
    this.tokens = Int32Array.from(this.#places.keys());
  }

  /** Index of a token in `tokens`; null: the prompt does not have it. */
  placeOf(token: number): number | null {
    return this.#places.get(token) ?? null;
  }
}

/**
 * Distinct tokens: the prompt's, then others in the order in which they were sampled. A sequence
 * stores its own sampled tokens in arrays, so that a step copies them without iterating.
 */
export class TokenHistory {
  readonly #prompt: PromptTokens | null;
  /** Sampled tokens, in order of their first occurrence. */
  #tokens = new Int32Array(firstCapacity);
  /** Target index of each: in the prompt's part, or behind it. */
  #targets = new Int32Array(firstCapacity);
  #counts = new Int32Array(firstCapacity);
  #sampled = 0;
  /** Number of them that the prompt does not have. */
  #beyond = 0;
  /** Index of a token in the arrays. */
  readonly #places = new Map<number, number>();

  /** The prompt's tokens count as seen, not as sampled; null: penalties ignore them. */
  constructor(prompt: PromptTokens | null) {
    this.#prompt = prompt;
  }

  /** Tokens seen, each counted once. */
  get length(): number {
    return this.#promptLength + this.#beyond;
  }

  /** Writes tokens, and how often each was sampled, from `start` on; -1: in the prompt only. */
  copyTo(tokens: Int32Array, counts: Int32Array, start: number): void {
    const behind = start + this.#promptLength;
    if (this.#prompt !== null) tokens.set(this.#prompt.tokens, start);
    counts.fill(-1, start, behind);
    for (let place = 0; place < this.#sampled; place++) {
      const target = start + (this.#targets[place] ?? 0);
      tokens[target] = this.#tokens[place] ?? 0;
      counts[target] = this.#counts[place] ?? 0;
    }
  }

  /** Counts one more sampled `token`. */
  add(token: number): void {
    const place = this.#places.get(token);
    if (place === undefined) this.#append(token);
    else this.#counts[place] = (this.#counts[place] ?? 0) + 1;
  }

  /** Undoes the newest `add`s, in any order of tokens. */
  remove(token: number): void {
    const place = this.#places.get(token);
    assert(place !== undefined, "Cannot remove a token that was not added");
    const left = (this.#counts[place] ?? 0) - 1;
    this.#counts[place] = left;
    if (left > 0) return;
    // First occurrences of undone tokens are the last ones.
    this.#places.delete(token);
    this.#sampled--;
    if ((this.#prompt?.placeOf(token) ?? null) === null) this.#beyond--;
  }

  get #promptLength(): number {
    return this.#prompt?.tokens.length ?? 0;
  }

  #append(token: number): void {
    if (this.#sampled === this.#tokens.length) this.#grow();
    const place = this.#sampled++;
    this.#tokens[place] = token;
    this.#targets[place] = this.#prompt?.placeOf(token) ?? this.#promptLength + this.#beyond++;
    this.#counts[place] = 1;
    this.#places.set(token, place);
  }

  #grow(): void {
    this.#tokens = doubled(this.#tokens);
    this.#targets = doubled(this.#targets);
    this.#counts = doubled(this.#counts);
  }
}

function doubled(values: Int32Array): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(2 * values.length);
  grown.set(values);
  return grown;
}
