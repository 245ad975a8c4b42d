/** The names of a schema's fields. Schemas are zod's, read by their structure. */

interface SchemaLike {
  /** Of an object: its fields. */
  readonly shape?: Readonly<Record<string, unknown>>;
  /** Of a default, null, read-only value or pipe: what is inside. */
  readonly def?: { readonly innerType?: unknown; readonly in?: unknown; readonly out?: unknown };
}

/** Deeper ones than any of ours end the walk. */
const DEPTH_MAX = 8;

/** All fields, dotted (`kvCache.blockTokens`); those of objects inside of lists are left out. */
export function fieldNames(schema: unknown): string[] {
  return namesBelow(schema, "", 0);
}

function namesBelow(schema: unknown, prefix: string, depth: number): string[] {
  const { shape, def } = (schema ?? {}) as SchemaLike;
  if (depth > DEPTH_MAX) return [];
  if (shape !== undefined) {
    return Object.entries(shape).flatMap(([name, field]) => {
      const dotted = prefix + name;
      return [dotted, ...namesBelow(field, `${dotted}.`, depth + 1)];
    });
  }
  // A pipe has its object before a transformation, or behind one.
  for (const inner of [def?.innerType, def?.in, def?.out]) {
    const names = inner === undefined ? [] : namesBelow(inner, prefix, depth + 1);
    if (names.length > 0) return names;
  }
  return [];
}
