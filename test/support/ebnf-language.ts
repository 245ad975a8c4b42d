/** Grammars over a small alphabet, and all short words of their languages, by definition. */
import type { Expr, Rules } from "../../src/sampling/grammar/ebnf-syntax.ts";

export const alphabet = ["a", "b", "c"] as const;

/** Words of `a` followed by words of `b`, up to a length. */
function joined(a: ReadonlySet<string>, b: ReadonlySet<string>, lengthMax: number): Set<string> {
  const words = new Set<string>();
  for (const left of a) {
    for (const right of b) if (left.length + right.length <= lengthMax) words.add(left + right);
  }
  return words;
}

function wordsOf(
  expr: Expr,
  known: ReadonlyMap<string, ReadonlySet<string>>,
  lengthMax: number,
): Set<string> {
  const words = (item: Expr): Set<string> => wordsOf(item, known, lengthMax);
  switch (expr.kind) {
    case "chars": {
      const isIn = (char: string) => {
        const code = char.charCodeAt(0);
        return expr.set.some(([low, high]) => low <= code && code <= high);
      };
      return new Set(alphabet.filter(isIn));
    }
    case "text":
      return new Set(expr.text.length <= lengthMax ? [expr.text] : []);
    case "rule":
      return new Set(known.get(expr.name));
    case "sequence":
      return expr.items.reduce((all, item) => joined(all, words(item), lengthMax), new Set([""]));
    case "choice":
      return new Set(expr.items.flatMap((item) => [...words(item)]));
    case "repeat": {
      const item = words(expr.item);
      const found = new Set<string>();
      let power = new Set([""]);
      const most = Math.min(expr.most ?? Number.POSITIVE_INFINITY, expr.least + lengthMax);
      for (let count = 0; count <= most && power.size > 0; count++) {
        if (count >= expr.least) for (const word of power) found.add(word);
        power = joined(power, item, lengthMax);
      }
      return found;
    }
  }
}

/** All words of `root` up to a length. */
export function languageOf(rules: Rules, lengthMax: number): ReadonlySet<string> {
  const known = new Map([...rules.keys()].map((name) => [name, new Set<string>()]));
  for (let grew = true; grew; ) {
    grew = false;
    for (const [name, expr] of rules) {
      const words = known.get(name) ?? new Set();
      const before = words.size;
      for (const word of wordsOf(expr, known, lengthMax)) words.add(word);
      if (words.size > before) grew = true;
    }
  }
  return known.get("root") ?? new Set();
}

/** A grammar by chance: `below(n)` is one of 0 … n - 1. */
export function randomGrammar(below: (n: number) => number): string {
  const names = ["root", "x", "y", "z"].slice(0, 2 + below(3));
  const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item;
  const expr = (depth: number): string => {
    const kind = below(depth > 0 ? 9 : 4);
    if (kind === 0) return `"${pick(alphabet)}"`;
    if (kind === 1) return pick(["[ab]", "[^a]", "[b-c]", "[a]"]);
    if (kind === 2) return pick(names);
    if (kind === 3) return pick(['"ab"', '"abc"', '""', '"ca"', '"bb"']);
    if (kind <= 5) return `${expr(depth - 1)} ${expr(depth - 1)}`;
    if (kind <= 7) return `(${expr(depth - 1)} | ${expr(depth - 1)})`;
    return `(${expr(depth - 1)})${pick(["*", "+", "?", "{2}", "{1,2}", "{2,}"])}`;
  };
  return names.map((name) => `${name} ::= ${expr(3)} | ${expr(2)}`).join("\n");
}
