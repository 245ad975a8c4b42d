/**
 * Translates EBNF to Lark with exactly the same meaning.
 *
 * EBNF works on characters, llguidance on terminals, which a lexer matches as long as possible. A
 * grammar without recursion is one terminal. In others, parts without recursion become terminals
 * where no terminal can match into its successor (`terminal-conflicts.ts`); where one could, it
 * is split, down to single characters, which never can.
 */

import { regularRules, usefulRules } from "./ebnf-rules.ts";
import { type Expr, ebnfRules, type Rules, sequenceOf } from "./ebnf-syntax.ts";
import { larkString, regexCharacter } from "./lark-text.ts";
import type { Syntax, Terminal } from "./syntax.ts";
import { conflictingTerminals } from "./terminal-conflicts.ts";

/** After this many rounds of splitting terminals, all of them are split. */
const roundsMax = 8;

/** Decides which parts of recursive rules are terminals. */
class TerminalChooser {
  readonly #rules: Rules;
  readonly #regular: ReadonlySet<string>;
  /** Expressions that may not be terminals as a whole. */
  readonly #apart = new Set<Expr>();
  #all = false;

  constructor(rules: Rules, regular: ReadonlySet<string>) {
    this.#rules = rules;
    this.#regular = regular;
  }

  choose(): Map<string, Syntax> {
    for (let round = 0; ; round++) {
      this.#all = round >= roundsMax;
      const chosen = this.#split();
      if (this.#all) return chosen;
      const conflicts = conflictingTerminals(chosen, this.#rules);
      const before = this.#apart.size;
      for (const { expr } of conflicts) this.#apart.add(expr);
      if (this.#apart.size === before) return chosen;
    }
  }

  /** Rules in terms of terminals; regular ones, too, where they were split. */
  #split(): Map<string, Syntax> {
    const split = new Map<string, Syntax>();
    const terminals = new Map<Expr, Terminal>();
    const queue = ["root"];
    const terminal = (expr: Expr): Terminal => {
      const known = terminals.get(expr);
      if (known !== undefined) return known;
      const made: Terminal = { kind: "terminal", id: terminals.size, expr };
      terminals.set(expr, made);
      return made;
    };
    const syntax = (expr: Expr): Syntax => {
      if (this.#isTerminal(expr)) return terminal(expr);
      switch (expr.kind) {
        case "rule":
          queue.push(expr.name);
          return expr;
        case "repeat":
          return { ...expr, item: syntax(expr.item) };
        case "sequence":
        case "choice":
          return { kind: expr.kind, items: expr.items.map(syntax) };
        case "text":
          return { kind: "sequence", items: this.#characters(expr).map(syntax) };
        case "chars":
          return terminal(expr);
      }
    };
    for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
      const expr = this.#rules.get(name);
      if (expr !== undefined && !split.has(name)) {
        split.set(name, { kind: "sequence", items: [] });
        split.set(name, syntax(expr));
      }
    }
    return split;
  }

  readonly #letters = new Map<Expr, readonly Expr[]>();

  /** The characters of a text, always the same objects: expressions are compared by identity. */
  #characters(expr: Expr & { kind: "text" }): readonly Expr[] {
    const known = this.#letters.get(expr);
    if (known !== undefined) return known;
    const letters = Array.from(expr.text, (char): Expr => {
      const code = char.codePointAt(0) ?? 0;
      return { kind: "chars", set: [[code, code]] };
    });
    this.#letters.set(expr, letters);
    return letters;
  }

  #isTerminal(expr: Expr): boolean {
    if (expr.kind === "chars") return true;
    return !this.#all && !this.#apart.has(expr) && this.#isRegular(expr);
  }

  readonly #known = new Map<Expr, boolean>();

  #isRegular(expr: Expr): boolean {
    const known = this.#known.get(expr);
    if (known !== undefined) return known;
    const isRegular = this.#findRegular(expr);
    this.#known.set(expr, isRegular);
    return isRegular;
  }

  #findRegular(expr: Expr): boolean {
    switch (expr.kind) {
      case "rule":
        return this.#regular.has(expr.name);
      case "repeat":
        return this.#isRegular(expr.item);
      case "sequence":
      case "choice":
        return expr.items.every((item) => this.#isRegular(item));
      default:
        return true;
    }
  }
}

/** Names of rules and terminals: EBNF allows any, Lark distinguishes the two by case. */
class LarkWriter {
  readonly #rules: Rules;
  readonly #names = new Map<string, string>();
  readonly #lines: string[] = [];
  readonly #queue: string[] = [];

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  write(start: Expr | Map<string, Syntax>): string {
    if (start instanceof Map) this.#writeRules(start);
    else this.#lines.push("start: ROOT", `ROOT: ${this.#expr(start)}`);
    for (let name = this.#queue.pop(); name !== undefined; name = this.#queue.pop()) {
      const expr = this.#rules.get(name);
      if (expr !== undefined) this.#lines.push(`${this.#terminalName(name)}: ${this.#expr(expr)}`);
    }
    return `${this.#lines.join("\n")}\n`;
  }

  #writeRules(split: Map<string, Syntax>): void {
    const places = new Map([...split.keys()].map((name, place) => [name, `rule_${place}`]));
    const written = new Set<number>();
    const terminals: Terminal[] = [];
    const syntax = (part: Syntax): string => {
      switch (part.kind) {
        case "terminal":
          terminals.push(part);
          return `TERMINAL_${part.id}`;
        case "rule":
          return places.get(part.name) ?? "";
        case "repeat":
          return repeated(syntax(part.item), part);
        case "sequence":
          return part.items.length === 0 ? '""' : `(${part.items.map(syntax).join(" ")})`;
        case "choice":
          return `(${part.items.map(syntax).join(" | ")})`;
      }
    };
    this.#lines.push(`start: ${places.get("root")}`);
    for (const [name, part] of split) this.#lines.push(`${places.get(name)}: ${syntax(part)}`);
    for (const { id, expr } of terminals) {
      if (written.has(id)) continue;
      written.add(id);
      this.#lines.push(`TERMINAL_${id}: ${this.#expr(expr)}`);
    }
  }

  #terminalName(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const made = `RULE_${this.#names.size}`;
    this.#names.set(name, made);
    this.#queue.push(name);
    return made;
  }

  /** An expression as part of a terminal. */
  #expr(expr: Expr): string {
    switch (expr.kind) {
      case "chars":
        return characterClass(expr);
      case "text":
        return larkString(expr.text);
      case "rule":
        return this.#terminalName(expr.name);
      case "repeat":
        return repeated(this.#expr(expr.item), expr);
      case "sequence":
        if (expr.items.length === 0) return '""';
        return `(${expr.items.map((item) => this.#expr(item)).join(" ")})`;
      case "choice":
        return `(${expr.items.map((item) => this.#expr(item)).join(" | ")})`;
    }
  }
}

function characterClass({ set }: Expr & { kind: "chars" }): string {
  const ranges = set.map(([low, high]) =>
    low === high ? regexCharacter(low) : `${regexCharacter(low)}-${regexCharacter(high)}`,
  );
  return `/[${ranges.join("")}]/`;
}

function repeated(item: string, { least, most }: { least: number; most: number | null }): string {
  if (least === 0 && most === 1) return `(${item})?`;
  if (most !== null) return most === 0 ? '""' : `(${item}){${least},${most}}`;
  if (least === 0) return `(${item})*`;
  return least === 1 ? `(${item})+` : `(${item}){${least},}`;
}

/** Lark of an EBNF grammar. Throws GRAMMAR_INVALID. */
export function ebnfLark(text: string): string {
  const rules = usefulRules(ebnfRules(text));
  const regular = regularRules(rules);
  const root = rules.get("root") ?? sequenceOf([]);
  const writer = new LarkWriter(rules);
  if (regular.has("root")) return writer.write(root);
  return writer.write(new TerminalChooser(rules, regular).choose());
}
