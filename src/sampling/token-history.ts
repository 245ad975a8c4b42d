/** Which tokens a sequence has seen, and how often it drew them: what penalties look at. */

const firstCapacity = 64;

/** Each token once, in order of first sight. In arrays, so that a step copies and does not walk. */
export class TokenHistory {
  #tokens = new Int32Array(firstCapacity);
  #counts = new Int32Array(firstCapacity);
  #length = 0;
  /** Where a token is in the arrays. */
  readonly #places = new Map<number, number>();

  /** `promptTokens` are seen, and not drawn. */
  constructor(promptTokens: Iterable<number>) {
    for (const token of promptTokens) if (!this.#places.has(token)) this.#append(token, -1);
  }

  /** [n]. A view, valid until the next `add`. */
  get tokens(): Int32Array {
    return this.#tokens.subarray(0, this.#length);
  }

  /** [n] Times drawn; -1: in the prompt only. */
  get counts(): Int32Array {
    return this.#counts.subarray(0, this.#length);
  }

  /** One more draw of `token`. */
  add(token: number): void {
    const place = this.#places.get(token);
    if (place === undefined) this.#append(token, 1);
    else this.#counts[place] = Math.max(0, this.#counts[place] ?? 0) + 1;
  }

  #append(token: number, count: number): void {
    if (this.#length === this.#tokens.length) this.#grow();
    this.#tokens[this.#length] = token;
    this.#counts[this.#length] = count;
    this.#places.set(token, this.#length);
    this.#length++;
  }

  #grow(): void {
    const [tokens, counts] = [this.#tokens, this.#counts];
    this.#tokens = new Int32Array(2 * tokens.length);
    this.#counts = new Int32Array(2 * counts.length);
    this.#tokens.set(tokens);
    this.#counts.set(counts);
  }
}
