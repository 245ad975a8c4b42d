/**
 * Regular expressions as automata whose states are the characters in them (Glushkov, "The abstract
 * theory of automata", 1961). Counted repetitions become unbounded: the automaton's
 * language is a superset of the expression's.
 */
import { type CharSet, charSet, intersects } from "./char-set.ts";
import type { Expr, Rules } from "./ebnf-syntax.ts";

export interface PositionAutomaton {
  /** Characters that each position matches. */
  readonly sets: readonly CharSet[];
  readonly firsts: readonly number[];
  readonly lasts: ReadonlySet<number>;
  /** Positions that may follow each. */
  readonly follows: readonly ReadonlySet<number>[];
  readonly isNullable: boolean;
}

/** Larger expressions are not analysed. */
const positionsMax = 256;

interface Part {
  readonly firsts: readonly number[];
  readonly lasts: readonly number[];
  readonly isNullable: boolean;
}

const nothing: Part = { firsts: [], lasts: [], isNullable: true };

class Builder {
  readonly sets: CharSet[] = [];
  readonly follows: Set<number>[] = [];
  readonly #rules: Rules;

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  /** Null: too many positions. */
  part(expr: Expr): Part | null {
    switch (expr.kind) {
      case "chars":
        return this.#position(expr.set);
      case "text": {
        const sets = Array.from(expr.text, (char): CharSet => {
          const code = char.codePointAt(0) ?? 0;
          return [[code, code]];
        });
        return this.#sequence(sets.map((set) => () => this.#position(set)));
      }
      case "rule": {
        const rule = this.#rules.get(expr.name);
        return rule === undefined ? nothing : this.part(rule);
      }
      case "repeat":
        return this.#repeat(expr);
      case "sequence":
        return this.#sequence(expr.items.map((item) => () => this.part(item)));
      case "choice":
        return this.#choice(expr.items);
    }
  }

  #position(set: CharSet): Part | null {
    if (this.sets.length >= positionsMax) return null;
    const place = this.sets.push(set) - 1;
    this.follows.push(new Set());
    return { firsts: [place], lasts: [place], isNullable: false };
  }

  #sequence(items: readonly (() => Part | null)[]): Part | null {
    let whole = nothing;
    for (const item of items) {
      const part = item();
      if (part === null) return null;
      this.#link(whole.lasts, part.firsts);
      whole = {
        firsts: whole.isNullable ? [...whole.firsts, ...part.firsts] : whole.firsts,
        lasts: part.isNullable ? [...whole.lasts, ...part.lasts] : part.lasts,
        isNullable: whole.isNullable && part.isNullable,
      };
    }
    return whole;
  }

  #choice(items: readonly Expr[]): Part | null {
    const parts: Part[] = [];
    for (const item of items) {
      const part = this.part(item);
      if (part === null) return null;
      parts.push(part);
    }
    return {
      firsts: parts.flatMap(({ firsts }) => firsts),
      lasts: parts.flatMap(({ lasts }) => lasts),
      isNullable: parts.some(({ isNullable }) => isNullable),
    };
  }

  #repeat({ item, least, most }: Expr & { kind: "repeat" }): Part | null {
    if (most === 0) return nothing;
    const part = this.part(item);
    if (part === null) return null;
    if (most !== 1) this.#link(part.lasts, part.firsts);
    return { ...part, isNullable: part.isNullable || least === 0 };
  }

  #link(from: readonly number[], to: readonly number[]): void {
    for (const place of from) for (const next of to) this.follows[place]?.add(next);
  }
}

/** The automaton of `expr`, or null where it would be too large. */
export function automatonOf(expr: Expr, rules: Rules): PositionAutomaton | null {
  const builder = new Builder(rules);
  const part = builder.part(expr);
  if (part === null) return null;
  const { sets, follows } = builder;
  const { firsts, isNullable } = part;
  return { sets, follows, firsts, isNullable, lasts: new Set(part.lasts) };
}

/** Characters that a word of the automaton may begin with. */
export function firstCharacters({ sets, firsts }: PositionAutomaton): CharSet {
  return charSet(firsts.flatMap((place) => sets[place] ?? []));
}

/**
 * Pairs of positions that one word can lead to in both; `visit` ends the walk by returning true.
 */
function walkTogether(
  a: PositionAutomaton,
  b: PositionAutomaton,
  visit: (inA: number, inB: number) => boolean,
): boolean {
  const seen = new Set<number>();
  const queue: [number, number][] = [];
  const push = (inA: number, inB: number) => {
    const key = inA * positionsMax + inB;
    if (seen.has(key) || !intersects(a.sets[inA] ?? [], b.sets[inB] ?? [])) return;
    seen.add(key);
    queue.push([inA, inB]);
  };
  for (const inA of a.firsts) for (const inB of b.firsts) push(inA, inB);
  for (let pair = queue.pop(); pair !== undefined; pair = queue.pop()) {
    const [inA, inB] = pair;
    if (visit(inA, inB)) return true;
    for (const nextA of a.follows[inA] ?? [])
      for (const nextB of b.follows[inB] ?? []) push(nextA, nextB);
  }
  return false;
}

/** Whether both accept a common word that is not empty. */
export function shareWord(a: PositionAutomaton, b: PositionAutomaton): boolean {
  return walkTogether(a, b, (inA, inB) => a.lasts.has(inA) && b.lasts.has(inB));
}

/** Whether a word of `a`, followed by a character of `next`, may be a prefix of a word of `b`. */
export function runsOn(a: PositionAutomaton, next: CharSet, b: PositionAutomaton): boolean {
  return walkTogether(a, b, (inA, inB) => {
    if (!a.lasts.has(inA)) return false;
    for (const place of b.follows[inB] ?? []) {
      if (intersects(b.sets[place] ?? [], next)) return true;
    }
    return false;
  });
}
