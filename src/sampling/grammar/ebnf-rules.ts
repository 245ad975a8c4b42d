/** Static analysis of a grammar's rules. All costs are linear. */
import { choiceOf, type Expr, type Repeat, type Rules, sequenceOf } from "./ebnf-syntax.ts";
import { grammarInvalid } from "./grammar-source.ts";

/** Rules that `expr` references, with repetitions. */
export function referencesOf(expr: Expr): string[] {
  switch (expr.kind) {
    case "rule":
      return [expr.name];
    case "repeat":
      return referencesOf(expr.item);
    case "sequence":
    case "choice":
      return expr.items.flatMap(referencesOf);
    default:
      return [];
  }
}

/** For each rule, the rules that reference it. */
function usersOf(rules: Rules): Map<string, string[]> {
  const users = new Map<string, string[]>();
  for (const [name, expr] of rules) {
    for (const used of new Set(referencesOf(expr))) {
      const known = users.get(used);
      if (known === undefined) users.set(used, [name]);
      else known.push(name);
    }
  }
  return users;
}

/**
 * Rules for which `holds` is true, given those for which it is true already: the smallest such set.
 */
function closure(rules: Rules, holds: (expr: Expr, found: ReadonlySet<string>) => boolean) {
  const found = new Set<string>();
  const users = usersOf(rules);
  const queue = [...rules.keys()];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    const expr = rules.get(name);
    if (expr === undefined || found.has(name) || !holds(expr, found)) continue;
    found.add(name);
    queue.push(...(users.get(name) ?? []));
  }
  return found;
}

function producible(expr: Expr, found: ReadonlySet<string>): boolean {
  switch (expr.kind) {
    case "chars":
      return expr.set.length > 0;
    case "text":
      return true;
    case "rule":
      return found.has(expr.name);
    case "repeat":
      return expr.least === 0 || producible(expr.item, found);
    case "sequence":
      return expr.items.every((item) => producible(item, found));
    case "choice":
      return expr.items.some((item) => producible(item, found));
  }
}

/** `expr` without the parts that match no output. */
function pruned(expr: Expr, found: ReadonlySet<string>): Expr {
  switch (expr.kind) {
    case "repeat":
      return producible(expr.item, found)
        ? { ...expr, item: pruned(expr.item, found) }
        : { kind: "sequence", items: [] };
    case "sequence":
      return sequenceOf(expr.items.map((item) => pruned(item, found)));
    case "choice": {
      const rest = expr.items.filter((item) => producible(item, found));
      return choiceOf(rest.map((item) => pruned(item, found)));
    }
    default:
      return expr;
  }
}

/** Rules that `root` references, directly or not. Throws GRAMMAR_INVALID where one is missing. */
function reachable(rules: Rules): Map<string, Expr> {
  const reached = new Map<string, Expr>();
  const queue = ["root"];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    if (reached.has(name)) continue;
    const expr = rules.get(name);
    if (expr === undefined) throw grammarInvalid(`rule ${name} must be defined, it is not`);
    reached.set(name, expr);
    queue.push(...referencesOf(expr));
  }
  return reached;
}

/** A rule that only repeats itself at its end, or at its beginning, as a repetition. */
function unrolled(name: string, expr: Expr): Expr {
  const items = expr.kind === "choice" ? expr.items : [expr];
  const isSelf = (item: Expr | undefined) => item?.kind === "rule" && item.name === name;
  const selfless = (part: readonly Expr[]) =>
    part.every((item) => !referencesOf(item).includes(name));
  const stops: Expr[] = [];
  const atEnd: Expr[] = [];
  const atStart: Expr[] = [];
  for (const item of items) {
    const parts = item.kind === "sequence" ? item.items : [item];
    if (selfless(parts)) stops.push(item);
    else if (isSelf(parts.at(-1)) && selfless(parts.slice(0, -1))) {
      atEnd.push(sequenceOf(parts.slice(0, -1)));
    } else if (isSelf(parts[0]) && selfless(parts.slice(1))) {
      atStart.push(sequenceOf(parts.slice(1)));
    } else return expr;
  }
  const many = (parts: readonly Expr[]): Repeat => {
    return { kind: "repeat", item: choiceOf(parts), least: 0, most: null };
  };
  if (stops.length === 0 || (atEnd.length > 0 && atStart.length > 0)) return expr;
  if (atEnd.length > 0) return sequenceOf([many(atEnd), choiceOf(stops)]);
  return atStart.length > 0 ? sequenceOf([choiceOf(stops), many(atStart)]) : expr;
}

/**
 * The useful rules: those reachable from `root`, without parts that never end, and as loops where a
 * rule only repeats itself. Throws GRAMMAR_INVALID where no rule is left, or one is missing.
 */
export function usefulRules(rules: Rules): Rules {
  const reached = reachable(rules);
  const found = closure(reached, producible);
  if (!found.has("root")) {
    throw grammarInvalid("it must allow an output, all outputs of this one are infinite");
  }
  const useful = new Map<string, Expr>();
  for (const [name, expr] of reached) {
    if (found.has(name)) useful.set(name, unrolled(name, pruned(expr, found)));
  }
  return reachable(useful);
}

/** Rules that are not recursive, directly or through others: regular expressions. */
export function regularRules(rules: Rules): Set<string> {
  return closure(rules, (expr, found) => referencesOf(expr).every((name) => found.has(name)));
}
