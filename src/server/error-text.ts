/** Limits a client's content in error messages: short, and without control characters. */

/** Maximum length of a message and of a field name, in characters; the middle is cut out. */
const MESSAGE_LENGTH_MAX = 500;
const FIELD_LENGTH_MAX = 120;

const CONTROL = /\p{Cc}/gu;

/** A message for clients and logs. */
export function messageText(message: string): string {
  return harmless(message, MESSAGE_LENGTH_MAX);
}

/** A field name for clients and logs: clients choose field names. */
export function fieldText(field: string): string {
  return harmless(field, FIELD_LENGTH_MAX);
}

/** Shortens a text, because it is sent back; cuts the middle, because the remedy is at the end. */
function harmless(text: string, lengthMax: number): string {
  const tailLength = Math.floor(lengthMax / 4);
  const short =
    text.length <= lengthMax
      ? text
      : `${text.slice(0, lengthMax - tailLength - 1)}…${text.slice(-tailLength)}`;
  return short.replace(CONTROL, escaped).toWellFormed();
}

/** Line breaks and tabs become spaces: a message is one line. */
function escaped(character: string): string {
  if (character === "\n" || character === "\t" || character === "\r") return " ";
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
