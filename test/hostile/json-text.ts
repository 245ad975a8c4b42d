/**
 * JSON as it is written, so that requests can say what no JavaScript value can: 1e309, -0, one key
 * twice, half a surrogate pair.
 */
export type JsonText = string;

/** An object's fields in order, each value as it is written. */
export type JsonFields = Readonly<Record<string, JsonText>>;

/** `{"a":1,"b":"text"}` of `{ a: '1', b: '"text"' }`. */
export function objectText(fields: JsonFields): JsonText {
  const parts = Object.entries(fields).map(([name, value]) => `${JSON.stringify(name)}:${value}`);
  return `{${parts.join(",")}}`;
}

/** `[v,v,v]`. */
export function repeated(value: JsonText, count: number): JsonText {
  return `[${new Array<string>(count).fill(value).join(",")}]`;
}

/** `value` inside of so many pairs of brackets. */
export function nested(depth: number, value: JsonText = ""): JsonText {
  return `${"[".repeat(depth)}${value}${"]".repeat(depth)}`;
}

/** A string of `count` times `unit`. */
export function longText(unit: string, count: number): JsonText {
  return JSON.stringify(unit.repeat(count));
}
