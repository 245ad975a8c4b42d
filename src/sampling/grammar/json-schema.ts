/** Prepares JSON schemas for llguidance: closed, spaced, without mere annotations. */
import { grammarInvalid } from "./grammar-source.ts";

type Json = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const inSchema = new Set(["items", "additionalProperties", "additionalItems", "not"]);
const inList = new Set(["anyOf", "oneOf", "allOf", "prefixItems", "items"]);
const inMap = new Set(["properties", "patternProperties", "$defs", "definitions"]);

/** Formats that constrain a string; others are annotations, as JSON Schema defines. */
const formats = new Set([
  ...["date-time", "time", "date", "duration", "email", "hostname"],
  ...["ipv4", "ipv6", "uuid", "uri"],
]);

/** References in branches of allOf, and in anyOf within these. */
function openReferences(schema: unknown, found = new Set<string>(), within = false): Set<string> {
  if (Array.isArray(schema)) {
    for (const item of schema) openReferences(item, found, within);
  } else if (isObject(schema)) {
    if (within && typeof schema.$ref === "string") found.add(schema.$ref);
    for (const [key, value] of Object.entries(schema)) {
      openReferences(value, found, key === "allOf" || (within && key === "anyOf"));
    }
  }
  return found;
}

/** Path of a schema in the document, as a reference names it. */
function pointer(path: string, key: string): string {
  return `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

class SchemaReader {
  readonly #open: ReadonlySet<string>;

  constructor(root: unknown) {
    this.#open = openReferences(root);
  }

  /**
   * The schema for llguidance. `merged`: other schemas define members of the same object, so this
   * one gets no `additionalProperties: false`, which would forbid these.
   */
  read(schema: unknown, path: string, merged: boolean): unknown {
    if (!isObject(schema)) return schema;
    const isMerged = merged || "allOf" in schema || "$ref" in schema || this.#open.has(path);
    const entries = Object.entries(schema).flatMap(([key, value]): [string, unknown][] => {
      if (key === "x-guidance") return [];
      if (key === "format" && typeof value === "string" && !formats.has(value)) return [];
      return [[key, this.#readValue(key, value, pointer(path, key), isMerged)]];
    });
    const read = Object.fromEntries(entries);
    const isNamed = "properties" in schema && !("additionalProperties" in schema);
    return isNamed && !("patternProperties" in schema) && !isMerged
      ? { ...read, additionalProperties: false }
      : read;
  }

  #readValue(key: string, value: unknown, path: string, isMerged: boolean): unknown {
    if (Array.isArray(value) && inList.has(key)) {
      const within = isMerged && (key === "allOf" || key === "anyOf" || key === "oneOf");
      return value.map((item, place) => this.read(item, `${path}/${place}`, within));
    }
    if (inSchema.has(key)) return this.read(value, path, false);
    if (!inMap.has(key) || !isObject(value)) return value;
    const entries = Object.entries(value).map(([name, item]): [string, unknown] => [
      name,
      this.read(item, pointer(path, name), false),
    ]);
    return Object.fromEntries(entries);
  }
}

/** Allowed white space between JSON tokens. 0: compact, at most one space after `,` and `:`. */
function spacing(whitespaceMax: number): Json {
  const apart = { coerce_one_of: true };
  return whitespaceMax === 0
    ? { ...apart, whitespace_flexible: false, item_separator: ", ?", key_separator: ": ?" }
    : { ...apart, whitespace_pattern: `[ \\n\\r\\t]{1,${whitespaceMax}}` };
}

/**
 * A schema for llguidance: objects have no members but the named ones, as in OpenAI's strict mode;
 * formats that constrain nothing are left out. Throws GRAMMAR_INVALID.
 */
export function preparedSchema(schema: unknown, whitespaceMax: number): Json {
  const read = new SchemaReader(schema).read(schema === true ? {} : schema, "#", false);
  if (!isObject(read)) throw grammarInvalid("a schema must be an object or true");
  return { ...read, "x-guidance": spacing(whitespaceMax) };
}
