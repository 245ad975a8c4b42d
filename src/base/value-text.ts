/**
 * Values of others in messages: what a client or a file wrote, short enough for a line of a log.
 */

/** Longest text in a message that came from outside, in UTF-16 units. */
const VALUE_LENGTH_MAX = 80;

/** `text`, or its beginning and an ellipsis. */
export function shortText(text: string, most: number = VALUE_LENGTH_MAX): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** Any value as a message shows it: texts as they are, all else as JSON. */
export function valueText(value: unknown, most: number = VALUE_LENGTH_MAX): string {
  if (typeof value === "string" && value !== "") return shortText(value, most);
  return shortText(jsonOf(value), most);
}

/** Callers may give anything: what JSON does not know is called by its type. */
function jsonOf(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  try {
    return JSON.stringify(value) ?? `a ${typeof value}`;
  } catch {
    // A circle, a bigint inside, or more depth than JSON.parse minds.
    return `a ${typeof value}`;
  }
}
