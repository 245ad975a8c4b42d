/** Literals as models write them in calls: Python's, or JSON's. */

/** Deeper values are no literals: models do not write them, and readers recurse. */
const DEPTH_MAX = 64;

const NUMBER = /[-+]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][-+]?\d+)?/y;
const WORD = /[A-Za-z_]\w*/y;
const SPACE = /\s*/y;
const STRING_START = /([rRuUbB]?)(["'])/y;

const WORDS: ReadonlyMap<string, string> = new Map([
  ...(["True", "true"] as const).map((word) => [word, "true"] as const),
  ...(["False", "false"] as const).map((word) => [word, "false"] as const),
  ...(["None", "null"] as const).map((word) => [word, "null"] as const),
]);

const ESCAPES: ReadonlyMap<string, string> = new Map(
  Object.entries({ n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0", "\n": "" }),
);

/** The literal as JSON text; null: it is none. Numbers keep their digits. */
export function jsonOfLiteral(text: string): string | null {
  const reader = new LiteralReader(text);
  const json = reader.value(0);
  return json !== null && reader.atEnd ? json : null;
}

class LiteralReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get atEnd(): boolean {
    this.#match(SPACE);
    return this.#at === this.#text.length;
  }

  /** JSON of the value here; null where there is none. */
  value(depth: number): string | null {
    if (depth > DEPTH_MAX) return null;
    this.#match(SPACE);
    const char = this.#text[this.#at];
    if (char === "[") return this.#items("]", depth);
    if (char === "(") return this.#group(depth);
    if (char === "{") return this.#dictionary(depth);
    return this.#strings() ?? this.#number() ?? this.#word();
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found !== null) this.#at = pattern.lastIndex;
    return found;
  }

  #take(char: string): boolean {
    this.#match(SPACE);
    if (this.#text[this.#at] !== char) return false;
    this.#at += 1;
    return true;
  }

  #number(): string | null {
    const found = this.#match(NUMBER)?.[0];
    if (found === undefined) return null;
    const plain = found.replaceAll("_", "").replace(/^\+/, "");
    const whole = plain.replace(/^(-?)\./, "$10.").replace(/\.(?=$|[eE])/, "");
    return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/.test(whole) ? whole : null;
  }

  #word(): string | null {
    const found = this.#match(WORD)?.[0];
    return found === undefined ? null : (WORDS.get(found) ?? null);
  }

  /** Strings side by side are one, as in Python. */
  #strings(): string | null {
    let text: string | null = null;
    for (;;) {
      const start = this.#match(STRING_START);
      if (start === null) return text === null ? null : JSON.stringify(text);
      const part = this.#string(start[2] ?? '"', start[1]?.toLowerCase() === "r");
      if (part === null) return null;
      text = (text ?? "") + part;
      this.#match(SPACE);
    }
  }

  #string(quote: string, isRaw: boolean): string | null {
    const pieces: string[] = [];
    let from = this.#at;
    for (; this.#at < this.#text.length; this.#at++) {
      const char = this.#text.charAt(this.#at);
      if (char === quote) {
        pieces.push(this.#text.slice(from, this.#at));
        this.#at += 1;
        return pieces.join("");
      }
      if (char !== "\\") continue;
      if (isRaw) {
        this.#at += 1;
        continue;
      }
      pieces.push(this.#text.slice(from, this.#at), this.#escape());
      from = this.#at + 1;
    }
    return null;
  }

  /** The character of the escape here; its last character is the current one afterwards. */
  #escape(): string {
    const letter = this.#text.charAt(this.#at + 1);
    const length = letter === "u" ? 4 : letter === "x" ? 2 : 0;
    const digits = this.#text.slice(this.#at + 2, this.#at + 2 + length);
    if (length > 0 && digits.length === length && /^[\da-fA-F]+$/.test(digits)) {
      this.#at += 1 + length;
      return String.fromCharCode(Number.parseInt(digits, 16));
    }
    this.#at += 1;
    if ("\\'\"/".includes(letter)) return letter;
    return ESCAPES.get(letter) ?? `\\${letter}`;
  }

  /** A list or a tuple. */
  #items(end: string, depth: number): string | null {
    this.#at += 1;
    const items: string[] = [];
    while (!this.#take(end)) {
      if (items.length > 0 && !this.#take(",")) return null;
      if (items.length > 0 && this.#take(end)) break;
      const item = this.value(depth + 1);
      if (item === null) return null;
      items.push(item);
    }
    return `[${items.join(", ")}]`;
  }

  /** A tuple; one value in brackets without a comma is that value. */
  #group(depth: number): string | null {
    const start = this.#at;
    this.#at += 1;
    const only = this.value(depth + 1);
    if (only !== null && this.#take(")")) return only;
    this.#at = start;
    return depth >= DEPTH_MAX ? null : this.#items(")", depth);
  }

  #dictionary(depth: number): string | null {
    this.#at += 1;
    const entries: string[] = [];
    while (!this.#take("}")) {
      if (entries.length > 0 && !this.#take(",")) return null;
      if (entries.length > 0 && this.#take("}")) break;
      const key = this.value(depth + 1);
      if (key === null || !this.#take(":")) return null;
      const value = this.value(depth + 1);
      if (value === null) return null;
      entries.push(`${key.startsWith('"') ? key : JSON.stringify(key)}: ${value}`);
    }
    return `{${entries.join(", ")}}`;
  }
}
