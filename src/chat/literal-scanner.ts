/** Follows brackets and quotes of a JSON or Python value, character by character. */
export class LiteralScanner {
  readonly #quotes: string;
  #depth = 0;
  #quote: string | null = null;
  #escaped = false;

  /** `quotes`: the characters that open strings. */
  constructor(quotes: string) {
    this.#quotes = quotes;
  }

  /** Whether the next character is outside of all brackets and strings. */
  get outside(): boolean {
    return this.#depth === 0 && this.#quote === null;
  }

  push(char: string): void {
    if (this.#quote !== null) this.#inString(char);
    else if (this.#quotes.includes(char)) this.#quote = char;
    else if ("([{".includes(char)) this.#depth += 1;
    else if (")]}".includes(char)) this.#depth = Math.max(0, this.#depth - 1);
  }

  #inString(char: string): void {
    if (this.#escaped) this.#escaped = false;
    else if (char === "\\") this.#escaped = true;
    else if (char === this.#quote) this.#quote = null;
  }
}
