/** Hostile cases from a seed: the same number is the same case, whatever was made before it. */
import { Dice } from "../fuzz/dice.ts";
import { FIELD_VALUES } from "./field-values.ts";
import type { BodyCase, HostileCase } from "./hostile-case.ts";
import { type JsonText, objectText } from "./json-text.ts";
import { BODY_ROUTES, type BodyRoute, fieldPaths } from "./request-schemas.ts";
import { textOf, type Value } from "./value-families.ts";
import { wireCase } from "./wire-cases.ts";

interface Slot {
  readonly route: BodyRoute;
  readonly field: string;
}

/** Every field of every route. */
export const SLOTS: readonly Slot[] = BODY_ROUTES.flatMap((route) =>
  fieldPaths(route.schema).map((field) => ({ route, field })),
);

const WIRE_PERCENT = 20;
const SINGLE_PERCENT = 55;

/**
 * The case with this number. The first ones give each field of each route one hostile value;
 * then come bytes that are no right HTTP, single fields, and fields together.
 */
export function caseAt(seed: number, index: number): HostileCase {
  const dice = new Dice(Math.imul(seed, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b));
  dice.below(2); // the first draw of neighbouring seeds is alike
  const name = `--seed ${seed} --only ${index}`;
  const slot = SLOTS[index];
  if (slot !== undefined) return single(name, slot, dice);
  const kind = dice.below(100);
  if (kind < WIRE_PERCENT) return wireCase(name, dice);
  if (kind < SINGLE_PERCENT) return single(name, some(SLOTS, dice), dice);
  return combined(name, dice);
}

function single(name: string, { route, field }: Slot, dice: Dice): BodyCase {
  const fields: Record<string, JsonText> = { ...route.body };
  put(fields, field, drawn(FIELD_VALUES[field]?.hostile ?? [], dice), dice.below(4) > 0);
  return bodyCase({ name, route, fields, hostile: [field] }, dice);
}

/** Two to six fields, each with a right or a hostile value. */
function combined(name: string, dice: Dice): BodyCase {
  const route = some(BODY_ROUTES.slice(0, dice.below(5) === 0 ? BODY_ROUTES.length : 2), dice);
  const paths = fieldPathsOf(route);
  const fields: Record<string, JsonText> = { ...route.body };
  const hostile: string[] = [];
  const hostileShare = 10 + dice.below(60);
  for (let count = 2 + dice.below(5); count > 0; count--) {
    const field = some(paths, dice);
    const isHostile = dice.below(100) < hostileShare;
    const values = FIELD_VALUES[field];
    put(fields, field, drawn((isHostile ? values?.hostile : values?.right) ?? [], dice), true);
    if (isHostile) hostile.push(field);
  }
  return bodyCase({ name, route, fields, hostile }, dice);
}

/** Sets a field, inside of what belongs around it, and with what belongs beside it. */
function put(
  fields: Record<string, JsonText>,
  field: string,
  value: JsonText,
  withOthers: boolean,
): void {
  const { around, beside = {} } = FIELD_VALUES[field] ?? {};
  const [top = field] = field.split(/[.[]/, 1);
  if (withOthers) Object.assign(fields, beside);
  fields[top] = around === undefined ? value : around.split("$").join(value);
}

interface Draft {
  readonly name: string;
  readonly route: BodyRoute;
  readonly fields: Record<string, JsonText>;
  readonly hostile: readonly string[];
}

function bodyCase({ name, route, fields, hostile }: Draft, dice: Dice): BodyCase {
  // Some clients write a key twice; the one read last counts.
  const doubled = dice.below(50) === 0 ? Object.entries(fields)[0] : undefined;
  const text = objectText(fields);
  const body =
    doubled === undefined ? text : `${text.slice(0, -1)},${JSON.stringify(doubled[0])}:null}`;
  const bothWays = route.streams && fields.stream === undefined && dice.below(3) === 0;
  const way = route.streams && dice.below(2) === 0 ? "stream" : "whole";
  return {
    ...{ kind: "body", name, path: route.path, fields: hostile, body },
    ways: bothWays ? ["whole", "stream"] : [fields.stream === undefined ? way : "whole"],
  };
}

const paths = new Map<string, string[]>();
function fieldPathsOf({ path, schema }: BodyRoute): string[] {
  const known = paths.get(path) ?? fieldPaths(schema);
  paths.set(path, known);
  return known;
}

function drawn(values: readonly Value[], dice: Dice): JsonText {
  return textOf(some(values, dice));
}

function some<Item>(items: readonly Item[], dice: Dice): Item {
  const item = dice.pick(items);
  if (item === null) throw new Error("Cannot choose: there is nothing to choose from");
  return item;
}
