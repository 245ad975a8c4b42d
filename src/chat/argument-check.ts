/** Whether arguments that a model wrote fit their schema. */
import { isPlainObject } from "#base";
import type { JsonSchema } from "./output-part.ts";

/** Deeper values are not looked at. */
const DEPTH_MAX = 32;
/** Nor are more: a schema whose alternatives name itself has no end. */
const LOOKS_MAX = 10_000;
/** Longest problem, in UTF-16 units: the model is shown it. */
const PROBLEM_MAX = 1_000;

const TYPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  object: isPlainObject,
  array: Array.isArray,
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number",
  integer: Number.isInteger,
  null: (value) => value === null,
};

/**
 * What is wrong with a value, for the model that wrote it; null: nothing that these keywords say:
 * `type`, `enum`, `const`, `properties`, `required`, `items`, `anyOf`, `$ref` into the document.
 */
export function argumentProblem(value: unknown, schema: JsonSchema | null): string | null {
  if (schema === null) return null;
  const problem = new Checker(schema).problem(value, schema, "arguments", 0);
  return problem === null ? null : problem.slice(0, PROBLEM_MAX);
}

class Checker {
  readonly #root: JsonSchema;
  #looks = 0;

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  problem(value: unknown, given: unknown, path: string, depth: number): string | null {
    if (!isPlainObject(given) || depth > DEPTH_MAX || this.#looks >= LOOKS_MAX) return null;
    this.#looks += 1;
    const schema = this.#resolved(given);
    return (
      typeProblem(value, schema, path) ??
      choiceProblem(value, schema, path) ??
      this.#anyProblem(value, schema, path, depth) ??
      this.#insideProblem(value, schema, path, depth)
    );
  }

  #resolved(schema: JsonSchema): JsonSchema {
    const { $ref } = schema;
    const match = typeof $ref === "string" ? /^#\/(\$defs|definitions)\/(.+)$/.exec($ref) : null;
    const group = match === null ? null : this.#root[match[1] ?? ""];
    const target = isPlainObject(group) ? group[match?.[2] ?? ""] : null;
    return isPlainObject(target) ? target : schema;
  }

  #anyProblem(value: unknown, schema: JsonSchema, path: string, depth: number): string | null {
    const { anyOf } = schema;
    if (!Array.isArray(anyOf)) return null;
    const problems = anyOf.map((one) => this.problem(value, one, path, depth + 1));
    return problems.includes(null) ? null : (problems[0] ?? null);
  }

  #insideProblem(value: unknown, schema: JsonSchema, path: string, depth: number): string | null {
    const { properties, required, items } = schema;
    if (Array.isArray(value)) {
      const problems = value.map((one, i) => this.problem(one, items, `${path}[${i}]`, depth + 1));
      return problems.find((problem) => problem !== null) ?? null;
    }
    if (!isPlainObject(value)) return null;
    const names: readonly unknown[] = Array.isArray(required) ? required : [];
    const missing = names.find((name) => typeof name === "string" && !Object.hasOwn(value, name));
    if (missing !== undefined) return `${path} must have ${missing}`;
    if (!isPlainObject(properties)) return null;
    for (const [name, inner] of Object.entries(properties)) {
      if (!Object.hasOwn(value, name)) continue;
      const problem = this.problem(value[name], inner, `${path}.${name}`, depth + 1);
      if (problem !== null) return problem;
    }
    return null;
  }
}

function typeProblem(value: unknown, { type }: JsonSchema, path: string): string | null {
  const types: readonly unknown[] = Array.isArray(type) ? type : type === undefined ? [] : [type];
  const known = types.filter((name) => typeof name === "string" && Object.hasOwn(TYPES, name));
  if (known.length === 0 || known.length < types.length) return null;
  if (known.some((name) => TYPES[String(name)]?.(value) === true)) return null;
  return `${path} must be ${known.join(" or ")}`;
}

function choiceProblem(value: unknown, schema: JsonSchema, path: string): string | null {
  const choices: unknown = "const" in schema ? [schema.const] : schema.enum;
  if (!Array.isArray(choices)) return null;
  const written = JSON.stringify(value);
  if (choices.some((choice) => JSON.stringify(choice) === written)) return null;
  return `${path} must be one of ${JSON.stringify(choices)}`;
}
