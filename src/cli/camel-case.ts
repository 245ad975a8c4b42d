/** JSON field names, written as in Python (`max_tokens`) or in TypeScript (`maxTokens`). */

/** `max_tokens` becomes `maxTokens`; other names stay unchanged. */
export function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** Converts all names in a JSON value, at any depth: for values without user-defined names. */
export function camelCaseFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCaseFields);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).map(([name, inner]) => [
    camelCase(name),
    camelCaseFields(inner),
  ]);
  return Object.fromEntries(fields);
}
