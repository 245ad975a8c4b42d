/** What an error may say of a client's content: little of it, and no character with a meaning. */

/** Longest message and name of a field, in characters; the middle of longer ones is left out. */
const MESSAGE_LENGTH_MAX = 500;
const FIELD_LENGTH_MAX = 120;

const CONTROL = /\p{Cc}/gu;

/** A message as clients and logs get it. */
export function messageText(message: string): string {
  return harmless(message, MESSAGE_LENGTH_MAX);
}

/** The name of a field as clients and logs get it: clients invent names. */
export function fieldText(field: string): string {
  return harmless(field, FIELD_LENGTH_MAX);
}

/** Cut, because it is sent back; in the middle, because the remedy stands at the end. */
function harmless(text: string, lengthMax: number): string {
  const tailLength = Math.floor(lengthMax / 4);
  const short =
    text.length <= lengthMax
      ? text
      : `${text.slice(0, lengthMax - tailLength - 1)}…${text.slice(-tailLength)}`;
  return short.replace(CONTROL, escaped).toWellFormed();
}

/** Lines and tabs become spaces: a message is one line. */
function escaped(character: string): string {
  if (character === "\n" || character === "\t" || character === "\r") return " ";
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
