/** Fields of JSON that people write as in Python (`max_tokens`) or in TypeScript (`maxTokens`). */

/** `max_tokens` as `maxTokens`; anything else as it is. */
export function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** All names in a value of JSON, however deep: for values that hold no names of a user's own. */
export function camelCaseFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCaseFields);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).map(([name, inner]) => [
    camelCase(name),
    camelCaseFields(inner),
  ]);
  return Object.fromEntries(fields);
}
