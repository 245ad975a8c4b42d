/** Times between one request's tokens. */
export class TokenGaps {
  readonly all: Float64Array;
  #count = 0;
  #lastMs = -1;

  constructor(outputTokens: number) {
    this.all = new Float64Array(Math.max(outputTokens - 1, 0));
  }

  get started(): boolean {
    return this.#lastMs >= 0;
  }

  /** Its first token came. */
  start(atMs: number): void {
    this.#lastMs = atMs;
  }

  /** Another one came. */
  token(atMs: number): void {
    this.all[this.#count++] = atMs - this.#lastMs;
    this.#lastMs = atMs;
  }
}
