/** Reads EBNF as xgrammar and llama.cpp (GBNF) write it. */
import { type CharSet, charSet, complementOf, lastCharacter } from "./char-set.ts";
import { grammarInvalid } from "./grammar-source.ts";

export type Expr =
  /** One character of the set. */
  | { readonly kind: "chars"; readonly set: CharSet }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "sequence"; readonly items: readonly Expr[] }
  | { readonly kind: "choice"; readonly items: readonly Expr[] }
  /** `most` null: unbounded. */
  | Repeat
  | { readonly kind: "rule"; readonly name: string };

export interface Repeat {
  readonly kind: "repeat";
  readonly item: Expr;
  readonly least: number;
  readonly most: number | null;
}

/** Rules by name, in source order. */
export type Rules = ReadonlyMap<string, Expr>;

export const empty: Expr = { kind: "sequence", items: [] };

export function sequenceOf(items: readonly Expr[]): Expr {
  return items.length === 1 && items[0] !== undefined ? items[0] : { kind: "sequence", items };
}

export function choiceOf(items: readonly Expr[]): Expr {
  return items.length === 1 && items[0] !== undefined ? items[0] : { kind: "choice", items };
}

/** Largest number of repetitions in a grammar. */
const repeatsMax = 1_000_000;

const escapes: Readonly<Record<string, number>> = {
  ...{ n: 10, r: 13, t: 9, a: 7, b: 8, f: 12, v: 11, e: 27, 0: 0 },
};
/** Digits of an escape that gives a character's number. */
const hexDigits: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

class EbnfReader {
  readonly #text: string;
  #place = 0;

  constructor(text: string) {
    this.#text = text;
  }

  rules(): Rules {
    const rules = new Map<string, Expr>();
    this.#skip();
    while (this.#place < this.#text.length) {
      const name = this.#name();
      if (name === null) throw this.#wrong("a rule must begin with its name");
      this.#skip();
      if (!this.#take("::=")) throw this.#wrong(`"::=" must follow the name ${name}`);
      if (rules.has(name)) throw this.#wrong(`rule ${name} must be defined only once`);
      rules.set(name, this.#choice());
      this.#skip();
    }
    return rules;
  }

  #wrong(wanted: string): Error {
    const lines = this.#text.slice(0, this.#place).split("\n");
    const column = (lines.at(-1) ?? "").length + 1;
    return grammarInvalid(`${wanted}, at line ${lines.length}, column ${column}`);
  }

  /** Skips white space and comments. */
  #skip(): void {
    const gap = /\s*(?:#[^\n]*)?/y;
    for (let start = -1; start < this.#place; ) {
      start = this.#place;
      gap.lastIndex = start;
      this.#place += gap.exec(this.#text)?.[0].length ?? 0;
    }
  }

  #take(text: string): boolean {
    if (!this.#text.startsWith(text, this.#place)) return false;
    this.#place += text.length;
    return true;
  }

  #name(): string | null {
    const name = /[A-Za-z_][\w.-]*/y;
    name.lastIndex = this.#place;
    const found = name.exec(this.#text)?.[0] ?? null;
    this.#place += found?.length ?? 0;
    return found;
  }

  /** Whether a rule begins here, so that the one before has ended. */
  #atRule(): boolean {
    const start = this.#place;
    const hasName = this.#name() !== null;
    this.#skip();
    const found = hasName && this.#text.startsWith("::=", this.#place);
    this.#place = start;
    return found;
  }

  #choice(): Expr {
    const items = [this.#sequence()];
    for (this.#skip(); this.#take("|"); this.#skip()) items.push(this.#sequence());
    return choiceOf(items);
  }

  #sequence(): Expr {
    const items: Expr[] = [];
    for (;;) {
      this.#skip();
      if (this.#atRule()) break;
      const atom = this.#atom();
      if (atom === null) break;
      items.push(this.#repeated(atom));
    }
    return sequenceOf(items);
  }

  #atom(): Expr | null {
    const char = this.#text.charAt(this.#place);
    if (char === '"' || char === "'") return this.#string(char);
    if (char === "[") return this.#characters();
    if (char === "(") return this.#group();
    if (char === ".") {
      this.#place++;
      return { kind: "chars", set: complementOf(charSet([[10, 10]])) };
    }
    const name = this.#name();
    if (name === null) return null;
    if (this.#text.charAt(this.#place) === "(") {
      throw this.#wrong(`a rule or a literal is wanted, ${name}(…) is a macro`);
    }
    return { kind: "rule", name };
  }

  #group(): Expr {
    this.#place++;
    if (this.#text.charAt(this.#place) === "=") throw this.#wrong("Lookahead is not supported");
    const inner = this.#choice();
    this.#skip();
    if (!this.#take(")")) throw this.#wrong('Unclosed group: ")" is wanted');
    return inner;
  }

  #string(quote: string): Expr {
    const start = this.#place++;
    let text = "";
    while (!this.#take(quote)) {
      if (this.#place >= this.#text.length || this.#text.charAt(this.#place) === "\n") {
        this.#place = start;
        throw this.#wrong("Unterminated string");
      }
      text += String.fromCodePoint(this.#character());
    }
    return text === "" ? empty : { kind: "text", text };
  }

  #characters(): Expr {
    const start = this.#place++;
    const isNegated = this.#take("^");
    const ranges: [number, number][] = [];
    while (!this.#take("]")) {
      if (this.#place >= this.#text.length || this.#text.charAt(this.#place) === "\n") {
        this.#place = start;
        throw this.#wrong("Unterminated character class");
      }
      const low = this.#character();
      const isRange =
        this.#text.charAt(this.#place) === "-" && this.#text.charAt(this.#place + 1) !== "]";
      if (isRange) this.#place++;
      const high = isRange ? this.#character() : low;
      if (high < low) throw this.#wrong("a range of characters must go up");
      ranges.push([low, high]);
    }
    const set = charSet(ranges);
    return { kind: "chars", set: isNegated ? complementOf(set) : complementOf(complementOf(set)) };
  }

  /** One character, maybe escaped. */
  #character(): number {
    const code = this.#text.codePointAt(this.#place) ?? 0;
    this.#place += code > 0xffff ? 2 : 1;
    if (code !== 0x5c) return code;
    const escaped = this.#text.codePointAt(this.#place) ?? 0;
    this.#place += escaped > 0xffff ? 2 : 1;
    const letter = String.fromCodePoint(escaped);
    const digits = hexDigits[letter];
    if (digits === undefined) return escapes[letter] ?? escaped;
    const hex = this.#text.slice(this.#place, this.#place + digits);
    const value = /^[0-9a-fA-F]+$/.test(hex) && hex.length === digits ? parseInt(hex, 16) : -1;
    if (value < 0 || value > lastCharacter) throw this.#wrong(`\\${letter} needs hex digits`);
    this.#place += digits;
    return value;
  }

  #repeated(item: Expr): Expr {
    this.#skipBlanks();
    const char = this.#text.charAt(this.#place);
    if (char === "{") return this.#counted(item);
    if (char !== "*" && char !== "+" && char !== "?") return item;
    this.#place++;
    if ("*+?{".includes(this.#text.charAt(this.#place) || " ")) {
      throw this.#wrong("one repetition at a time is wanted, write (…) around it");
    }
    return { kind: "repeat", item, least: char === "+" ? 1 : 0, most: char === "?" ? 1 : null };
  }

  #skipBlanks(): void {
    while (this.#text.charAt(this.#place) === " ") this.#place++;
  }

  #counted(item: Expr): Expr {
    const range = /\{\s*(\d{1,9})\s*(?:(,)\s*(\d{1,9})?\s*)?\}/y;
    range.lastIndex = this.#place;
    const found = range.exec(this.#text);
    if (found === null) throw this.#wrong("{m}, {m,} or {m,n} is wanted");
    const least = Number(found[1]);
    const open = found[2] !== undefined && found[3] === undefined;
    const most = open ? null : Number(found[3] ?? found[1]);
    if (most !== null && most < least) throw this.#wrong("{m,n} must go up");
    if (Math.max(least, most ?? 0) > repeatsMax) {
      throw this.#wrong(`at most ${repeatsMax} repetitions are allowed`);
    }
    this.#place += found[0].length;
    return { kind: "repeat", item, least, most };
  }
}

/** The rules of a grammar, `root` among them. Throws GRAMMAR_INVALID. */
export function ebnfRules(text: string): Rules {
  const rules = new EbnfReader(text).rules();
  if (!rules.has("root")) throw grammarInvalid("it must have a rule root, it has none");
  return rules;
}
