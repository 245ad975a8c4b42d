/** Values of clients and files in messages, shortened to fit a line of a log. */

/** Longest external text in a message, in UTF-16 units. */
const VALUE_LENGTH_MAX = 80;

/** `text`, or its beginning and an ellipsis. */
export function shortText(text: string, most: number = VALUE_LENGTH_MAX): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** Any value as a message shows it: texts unchanged, all else as JSON. */
export function valueText(value: unknown, most: number = VALUE_LENGTH_MAX): string {
  if (typeof value === "string" && value !== "") return shortText(value, most);
  return shortText(jsonOf(value), most);
}

/** The value may be anything: one that JSON cannot express is shown as its type. */
function jsonOf(value: unknown): string {
  // JSON has no NaN, which it writes as null.
  if (typeof value === "bigint" || typeof value === "number") return String(value);
  try {
    return JSON.stringify(value) ?? `a ${typeof value}`;
  } catch {
    // A circular value, a bigint inside, or too deep a nesting.
    return `a ${typeof value}`;
  }
}
