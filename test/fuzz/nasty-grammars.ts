/** What clients may send as structured output, made to hurt: deep, wide, recursive, contradictory. */
import type { StructuredOutput } from "#sampling";
import type { Dice } from "./dice.ts";

const types = ["string", "integer", "number", "boolean", "null", "array", "object", "nope"];
const formats = ["date-time", "email", "uuid", "uri", "int32"];
const numbers = [0, 1, -1, 2, 7, 1e9, 1e-300, 1e308, -0.5, 4_294_967_296, 1.5];

const repeat = (dice: Dice, most: number, make: () => unknown): unknown[] =>
  Array.from({ length: dice.below(most + 1) }, make);

function pattern(dice: Dice, depth: number): string {
  if (depth === 0) return dice.pick(["a", "[a-z]", "\\d", ".", "[^x]", "\\w", "é", "\\p{L}"]) ?? "";
  const inner = pattern(dice, depth - 1);
  switch (dice.below(9)) {
    case 0:
      return `(${inner}){${dice.below(4)},${dice.below(1_000)}}`;
    case 1:
      return `(${inner})*`;
    case 2:
      return `(${inner}|${pattern(dice, depth - 1)})`;
    case 3:
      return `(?=${inner})`;
    case 4:
      return `^${inner}$`;
    case 5:
      return `(${inner}`;
    default:
      return `${inner}${pattern(dice, depth - 1)}`;
  }
}

function value(dice: Dice): unknown {
  return dice.pick<unknown>(["x", "", 1, 0.1, null, true, [1, "a"], { k: [{}] }, "\u0000😀", -0]);
}

function members(dice: Dice, depth: number): [string, unknown][] {
  const wide = dice.below(12) === 0 ? 300 : 4;
  const make = (): [string, unknown] => [
    dice.pick(["a", "b", "__proto__", "$ref", "", 'q"', `k${dice.below(400)}`]) ?? "",
    schema(dice, depth - 1),
  ];
  return Array.from({ length: dice.below(wide + 1) }, make);
}

/** One or a few keywords of JSON Schema. */
function keyword(dice: Dice, depth: number): Record<string, unknown> {
  const inner = () => schema(dice, depth - 1);
  const number = () => dice.pick(numbers);
  switch (dice.below(22)) {
    case 0:
      return { properties: Object.fromEntries(members(dice, depth)), required: ["a"] };
    case 1:
      return { items: inner(), minItems: number(), maxItems: number() };
    case 2:
      return { anyOf: repeat(dice, 6, inner) };
    case 3:
      return { allOf: repeat(dice, 4, inner) };
    case 4:
      return { oneOf: repeat(dice, 4, inner) };
    case 5:
      return {
        $ref: dice.pick(["#", "#/$defs/x", "#/$defs/y", "#/$defs/none", "http://a/b", "#x"]),
      };
    case 6:
      return { enum: repeat(dice, 8, () => value(dice)) };
    case 7:
      return { const: value(dice) };
    case 8:
      return { pattern: pattern(dice, 3) };
    case 9:
      return { minLength: number(), maxLength: number() };
    case 10:
      return { minimum: number(), maximum: number(), multipleOf: number() };
    case 11:
      return { patternProperties: { [pattern(dice, 2)]: inner(), "^a": inner() } };
    case 12:
      return { additionalProperties: inner() };
    case 13:
      return { format: dice.pick(formats) };
    case 14:
      return { minProperties: number(), maxProperties: number() };
    case 15:
      return { prefixItems: repeat(dice, 4, inner), items: false };
    case 16:
      return { [dice.pick(["not", "if", "uniqueItems", "x-guidance"]) ?? "not"]: inner() };
    default:
      return { type: dice.pick(types) };
  }
}

function schema(dice: Dice, depth: number): unknown {
  if (depth <= 0) return dice.pick<unknown>([true, false, {}, { type: dice.pick(types) }, 7]);
  const keywords = Array.from({ length: 1 + dice.below(3) }, () => keyword(dice, depth));
  return Object.assign({}, ...keywords);
}

function rule(dice: Dice, names: readonly string[], depth: number): string {
  const inner = () => rule(dice, names, depth - 1);
  switch (depth === 0 ? dice.below(5) : dice.below(12)) {
    case 0:
      return dice.pick(names) ?? "root";
    case 1:
      return dice.pick(['"a"', '"ab"', '""', '"\\u0000"', "'😀'"]) ?? "";
    case 2:
    case 3:
      return dice.pick(["[a-z]", '[^"]', "[]", "[^]", "[\\x00-\\U0010ffff]"]) ?? "";
    case 4:
      return "missing";
    case 5:
    case 6:
      return `(${inner()} | ${inner()})`;
    case 7:
      return `(${inner()})${dice.pick(["*", "+", "?", "{1000}", "{0,999999}", "{3,}"])}`;
    case 8:
      return "# a comment\n";
    default:
      return `${inner()} ${inner()}`;
  }
}

function ebnf(dice: Dice): string {
  const names = ["root", ...Array.from({ length: dice.below(6) }, (_, place) => `r${place}`)];
  return names.map((name) => `${name} ::= ${rule(dice, names, 4)}`).join("\n");
}

function tag(dice: Dice, depth: number): unknown {
  const inner = () => (depth === 0 ? { type: "any_text" } : tag(dice, depth - 1));
  const text = () => dice.pick(["<a>", "<", "", "</a>", "x\n"]);
  const one = () => ({ type: "tag", begin: text(), content: inner(), end: text() });
  switch (dice.below(10)) {
    case 0:
      return { type: "triggered_tags", triggers: ["<", "<a"], tags: repeat(dice, 3, one) };
    case 1:
      return { type: "tags_with_separator", separator: text(), tags: repeat(dice, 3, one) };
    case 2:
      return { type: "sequence", elements: repeat(dice, 4, inner) };
    case 3:
      return { type: "or", elements: repeat(dice, 4, inner) };
    case 4:
      return { type: "regex", pattern: pattern(dice, 3) };
    case 5:
      return { type: "json_schema", json_schema: schema(dice, 3) };
    case 6:
      return { type: "grammar", grammar: ebnf(dice) };
    case 7:
      return { structures: [{ begin: text(), schema: schema(dice, 2), end: text() }, null] };
    default:
      return one();
  }
}

/** A request's structured output. */
export function nastyOutput(dice: Dice): StructuredOutput {
  switch (dice.below(5)) {
    case 0:
      return { regex: pattern(dice, 5) };
    case 1:
    case 2: {
      const $defs = { x: schema(dice, 3), y: schema(dice, 3) };
      const root = schema(dice, 4);
      return { json: typeof root === "object" ? { ...root, $defs } : { anyOf: [root], $defs } };
    }
    case 3:
      return { grammar: ebnf(dice) };
    default:
      return { structuralTag: { format: tag(dice, 3) } };
  }
}
