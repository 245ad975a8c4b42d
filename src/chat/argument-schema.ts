/** What the schema of a tool's arguments says of one of them. */
import { isPlainObject } from "#base";
import type { JsonSchema } from "./output-part.ts";

/** The names of the schema's properties, in its order. */
export function argumentNames(schema: JsonSchema | null): readonly string[] {
  return isPlainObject(schema?.properties) ? Object.keys(schema.properties) : [];
}

/** The schema of one argument, as an object; null where there is none. */
export function argumentSchema(schema: JsonSchema | null, name: string): JsonSchema | null {
  const properties = schema?.properties;
  if (!isPlainObject(properties) || !Object.hasOwn(properties, name)) return null;
  const own = properties[name];
  return isPlainObject(own) ? resolved(own, schema) : null;
}

/** Whether the argument is a text, whose spelling needs no quotes. */
export function isTextual(schema: JsonSchema | null): boolean {
  if (schema === null) return false;
  if (schema.type === "string") return true;
  const values: unknown = "const" in schema ? [schema.const] : schema.enum;
  return Array.isArray(values) && values.every((value) => typeof value === "string");
}

/** Follows one reference inside of the document. */
function resolved(own: JsonSchema, root: JsonSchema | null): JsonSchema {
  const match =
    typeof own.$ref === "string" ? /^#\/(\$defs|definitions)\/(.+)$/.exec(own.$ref) : null;
  const group = match === null ? null : root?.[match[1] ?? ""];
  const target = isPlainObject(group) ? group[match?.[2] ?? ""] : null;
  return isPlainObject(target) ? target : own;
}
