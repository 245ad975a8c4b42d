const ARGUMENT_KEYS = new Set(["arguments", "parameters"]);

type Place = "before" | "key" | "colon" | "value" | "comma" | "done" | "broken";

/**
 * Reads one `{"name": …, "arguments": {…}}` object incrementally, with keys in any order, and
 * returns the text of the arguments unchanged. A scanner, not a parser: it counts brackets and
 * quotes, so that a partial object can be streamed.
 */
export class JsonCallReader {
  /** All text taken so far. */
  raw = "";
  /** The called tool, once known. */
  name: string | null = null;
  #place: Place = "before";
  #depth = 0;
  #inString = false;
  #escaped = false;
  #start = 0; // of the current key or value in `raw`
  #key = "";
  #argumentsStart: number | null = null;
  #argumentsEnd: number | null = null;
  #isObject = false; // the arguments begin with a brace
  #fresh = ""; // text of an object's arguments that was not returned yet
  #isTaken = false; // other arguments were returned

  get done(): boolean {
    return this.#place === "done";
  }

  /** Whether the text is not an object. */
  get broken(): boolean {
    return this.#place === "broken";
  }

  get hasArguments(): boolean {
    return this.#argumentsStart !== null;
  }

  /** Takes text up to the object's end; returns how many characters were taken. */
  push(text: string): number {
    let taken = 0;
    while (taken < text.length && !this.done && !this.broken) {
      const char = text.charAt(taken);
      const at = this.raw.length;
      this.raw += char;
      taken += 1;
      this.#scan(char, at);
      // Not cut out of `raw`: that copies all of it each time.
      const isInside = this.#argumentsStart !== null && at < (this.#argumentsEnd ?? at + 1);
      if (this.#isObject && isInside) this.#fresh += char;
    }
    return taken;
  }

  /** Argument text not returned before. Arguments written as a JSON string are unpacked. */
  takeArguments(): string {
    if (this.#argumentsStart === null) return "";
    if (!this.#isObject) return this.#takeWhole(this.#argumentsStart);
    const text = this.#fresh;
    this.#fresh = "";
    return text;
  }

  #takeWhole(start: number): string {
    if (this.#argumentsEnd === null || this.#isTaken) return "";
    this.#isTaken = true;
    const value = parsed(this.raw.slice(start, this.#argumentsEnd));
    if (typeof value === "string") return value;
    return value === null || value === undefined ? "{}" : JSON.stringify(value);
  }

  #scan(char: string, at: number): void {
    if (this.#inString) this.#scanString(char, at);
    else if (this.#place === "before") this.#scanBefore(char);
    else if (!/\s/.test(char)) this.#scanObject(char, at);
  }

  #scanBefore(char: string): void {
    if (char === "{") {
      this.#depth = 1;
      this.#place = "key";
    } else if (!/\s/.test(char)) {
      this.#place = "broken";
    }
  }

  #scanString(char: string, at: number): void {
    if (this.#escaped) this.#escaped = false;
    else if (char === "\\") this.#escaped = true;
    else if (char === '"') {
      this.#inString = false;
      if (this.#depth === 1) this.#endString(at);
    }
  }

  #endString(at: number): void {
    if (this.#place === "key") {
      this.#key = String(parsed(this.raw.slice(this.#start, at + 1)));
      this.#place = "colon";
    } else if (this.#place === "value") {
      this.#endValue(at + 1);
      this.#place = "comma";
    }
  }

  #scanObject(char: string, at: number): void {
    if (this.#place === "value" && this.#start < 0) this.#startValue(char, at);
    if (char === '"') this.#startString(at);
    else if (char === "{" || char === "[") this.#depth += 1;
    else if (char === "}" || char === "]") this.#close(at);
    else if (this.#depth === 1) this.#separate(char, at);
  }

  #startString(at: number): void {
    this.#inString = true;
    if (this.#depth === 1 && this.#place === "key") this.#start = at;
  }

  #startValue(char: string, at: number): void {
    this.#start = at;
    if (!ARGUMENT_KEYS.has(this.#key) || this.#argumentsStart !== null) return;
    this.#argumentsStart = at;
    this.#isObject = char === "{";
  }

  #close(at: number): void {
    this.#depth -= 1;
    if (this.#depth === 0) {
      if (this.#place === "value") this.#endValue(at);
      this.#place = "done";
    } else if (this.#depth === 1 && this.#place === "value") {
      this.#endValue(at + 1);
      this.#place = "comma";
    }
  }

  #separate(char: string, at: number): void {
    if (char === ":" && this.#place === "colon") {
      this.#place = "value";
      this.#start = -1;
    } else if (char === ",") {
      if (this.#place === "value") this.#endValue(at);
      this.#place = "key";
    }
  }

  #endValue(end: number): void {
    if (ARGUMENT_KEYS.has(this.#key)) {
      this.#argumentsEnd ??= end;
    } else if (this.#key === "name") {
      const name = parsed(this.raw.slice(this.#start, end));
      if (typeof name === "string") this.name ??= name;
    }
  }
}

/** The value of a JSON text; undefined if it is not JSON: models make mistakes. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
