/** Requests at one decode instance: those that decode, and those whose prompts are computed. */
export class DecodeBooks {
  decoding = 0;
  decodingTokens = 0;
  /** Reserved for requests whose prompts are still being computed. */
  coming = 0;
  comingTokens = 0;

  get requests(): number {
    return this.decoding + this.coming;
  }

  get tokens(): number {
    return this.decodingTokens + this.comingTokens;
  }

  reserve(tokens: number): void {
    this.coming++;
    this.comingTokens += tokens;
  }

  join(tokens: number): void {
    this.cancel(tokens);
    this.decoding++;
    this.decodingTokens += tokens;
  }

  cancel(tokens: number): void {
    this.coming--;
    this.comingTokens -= tokens;
  }

  leave(tokens: number): void {
    this.decoding--;
    this.decodingTokens -= tokens;
  }
}
