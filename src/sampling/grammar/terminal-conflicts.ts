/**
 * Finds where a lexer that takes the longest match would change a grammar's meaning.
 *
 * It does if, at one place of an output, terminals a and b may begin, a word of a may end there,
 * and with a character that may follow a the lexer is still within b. Every result errs on the safe
 * side: places are distinguished by the terminal before them alone, repetitions by their item.
 */
import { type CharSet, unionOf } from "./char-set.ts";
import type { Rules } from "./ebnf-syntax.ts";
import {
  automatonOf,
  firstCharacters,
  type PositionAutomaton,
  runsOn,
  shareWord,
} from "./position-automaton.ts";
import type { Syntax, Terminal } from "./syntax.ts";

/** With more terminals, or more pairs of them to compare, all are in conflict. */
const terminalsMax = 256;
const pairsMax = 50_000;

type Ids = Set<number>;

function addAll(to: Ids, from: Iterable<number>): boolean {
  const before = to.size;
  for (const id of from) to.add(id);
  return to.size > before;
}

/** Which terminals may begin a rule, and follow each other. */
class TerminalOrder {
  readonly #rules: ReadonlyMap<string, Syntax>;
  readonly #isEmpty: (terminal: Terminal) => boolean;
  readonly #nullable = new Set<string>();
  readonly #firsts = new Map<string, Ids>();
  readonly #follows = new Map<string, Ids>();
  /** Terminals that may follow each. */
  readonly next = new Map<number, Ids>();

  constructor(rules: ReadonlyMap<string, Syntax>, isEmpty: (terminal: Terminal) => boolean) {
    this.#rules = rules;
    this.#isEmpty = isEmpty;
    for (const name of rules.keys()) {
      this.#firsts.set(name, new Set());
      this.#follows.set(name, new Set());
    }
    this.#untilStable((name, syntax) => {
      const isNew = !this.#nullable.has(name) && this.#isNullable(syntax);
      if (isNew) this.#nullable.add(name);
      return addAll(this.#firstsOf(name), this.#first(syntax)) || isNew;
    });
    this.#untilStable((name, syntax) => this.#follow(syntax, this.#follows.get(name) ?? new Set()));
  }

  get start(): Ids {
    return this.#firstsOf("root");
  }

  #untilStable(visit: (name: string, syntax: Syntax) => boolean): void {
    for (let changed = true; changed; ) {
      changed = false;
      for (const [name, syntax] of this.#rules) if (visit(name, syntax)) changed = true;
    }
  }

  #firstsOf(name: string): Ids {
    return this.#firsts.get(name) ?? new Set();
  }

  #isNullable(syntax: Syntax): boolean {
    switch (syntax.kind) {
      case "terminal":
        return this.#isEmpty(syntax);
      case "rule":
        return this.#nullable.has(syntax.name);
      case "repeat":
        return syntax.least === 0 || this.#isNullable(syntax.item);
      case "sequence":
        return syntax.items.every((item) => this.#isNullable(item));
      case "choice":
        return syntax.items.some((item) => this.#isNullable(item));
    }
  }

  #first(syntax: Syntax): Ids {
    switch (syntax.kind) {
      case "terminal":
        return new Set([syntax.id]);
      case "rule":
        return this.#firstsOf(syntax.name);
      case "repeat":
        return this.#first(syntax.item);
      case "choice":
        return new Set(syntax.items.flatMap((item) => [...this.#first(item)]));
      case "sequence": {
        const first: Ids = new Set();
        for (const item of syntax.items) {
          addAll(first, this.#first(item));
          if (!this.#isNullable(item)) break;
        }
        return first;
      }
    }
  }

  /** Records that `follow` may come behind `syntax`. Returns whether that was new. */
  #follow(syntax: Syntax, follow: Ids): boolean {
    switch (syntax.kind) {
      case "terminal": {
        const known = this.next.get(syntax.id) ?? new Set();
        this.next.set(syntax.id, known);
        return addAll(known, follow);
      }
      case "rule":
        return addAll(this.#follows.get(syntax.name) ?? new Set(), follow);
      case "repeat": {
        const again = syntax.most === 1 ? [] : this.#first(syntax.item);
        return this.#follow(syntax.item, new Set([...follow, ...again]));
      }
      case "choice":
        return syntax.items.map((item) => this.#follow(item, follow)).includes(true);
      case "sequence": {
        let behind = follow;
        let changed = false;
        for (const item of [...syntax.items].reverse()) {
          if (this.#follow(item, behind)) changed = true;
          const first = this.#first(item);
          behind = this.#isNullable(item) ? new Set([...first, ...behind]) : first;
        }
        return changed;
      }
    }
  }
}

/** Sets of terminals that may begin at one place. */
class Places {
  readonly #order: TerminalOrder;
  /** Terminals that match a common word: the successors of one may follow the others. */
  readonly #group = new Map<number, number>();

  constructor(order: TerminalOrder) {
    this.#order = order;
  }

  #groupOf(id: number): number {
    let group = id;
    for (let up = this.#group.get(group); up !== undefined; up = this.#group.get(group)) group = up;
    return group;
  }

  all(): Ids[] {
    const byGroup = new Map<number, Ids>();
    for (const [id, next] of this.#order.next) {
      const group = this.#groupOf(id);
      const place = byGroup.get(group) ?? new Set();
      addAll(place, next);
      byGroup.set(group, place);
    }
    return [this.#order.start, ...byGroup.values()];
  }

  /** Returns whether that was new. */
  join(a: number, b: number): boolean {
    const [one, other] = [this.#groupOf(a), this.#groupOf(b)];
    if (one !== other) this.#group.set(one, other);
    return one !== other;
  }
}

function terminalsIn(rules: Iterable<Syntax>): Map<number, Terminal> {
  const found = new Map<number, Terminal>();
  const queue = [...rules];
  for (let part = queue.pop(); part !== undefined; part = queue.pop()) {
    if (part.kind === "terminal") found.set(part.id, part);
    else if (part.kind === "repeat") queue.push(part.item);
    else if (part.kind !== "rule") queue.push(...part.items);
  }
  return found;
}

function* pairsOf(place: Ids): Generator<readonly [number, number]> {
  const ids = [...place];
  for (const a of ids) for (const b of ids) yield [a, b];
}

/** Terminals that must be split. None: the lexer keeps the grammar's meaning. */
export function conflictingTerminals(
  syntax: ReadonlyMap<string, Syntax>,
  rules: Rules,
): readonly Terminal[] {
  const terminals = terminalsIn(syntax.values());
  const large = [...terminals.values()].filter(({ expr }) => expr.kind !== "chars");
  if (large.length === 0) return [];
  if (terminals.size > terminalsMax) return large;
  const automata = new Map<number, PositionAutomaton>();
  const tooLarge: Terminal[] = [];
  for (const terminal of terminals.values()) {
    const automaton = automatonOf(terminal.expr, rules);
    if (automaton === null) tooLarge.push(terminal);
    else automata.set(terminal.id, automaton);
  }
  if (tooLarge.length > 0) return tooLarge;
  const order = new TerminalOrder(syntax, ({ id }) => automata.get(id)?.isNullable ?? false);
  const found = conflictsIn(order, automata);
  return found === null ? large : large.filter(({ id }) => found.has(id));
}

/** Ids of terminals in conflict; null: too many to compare. */
function conflictsIn(
  order: TerminalOrder,
  automata: ReadonlyMap<number, PositionAutomaton>,
): Ids | null {
  const following = (id: number): CharSet => {
    const next = [...(order.next.get(id) ?? [])].flatMap((other) => automata.get(other) ?? []);
    return next.map(firstCharacters).reduce(unionOf, []);
  };
  const characters = new Map([...automata.keys()].map((id) => [id, following(id)]));
  const places = new Places(order);
  const looked = new Set<string>();
  const conflicts: Ids = new Set();
  for (let changed = true; changed; ) {
    changed = false;
    for (const place of places.all()) {
      for (const [a, b] of pairsOf(place)) {
        const key = `${a} ${b}`;
        const [one, other] = [automata.get(a), automata.get(b)];
        if (one === undefined || other === undefined || looked.has(key)) continue;
        if (looked.size >= pairsMax) return null;
        looked.add(key);
        if (runsOn(one, characters.get(a) ?? [], other)) addAll(conflicts, [a, b]);
        if (a !== b && shareWord(one, other) && places.join(a, b)) changed = true;
      }
    }
  }
  return conflicts;
}
