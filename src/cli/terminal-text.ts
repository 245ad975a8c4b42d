/**
 * Text of others on a terminal: names in checkpoints and repositories, messages that quote them,
 * and what models write. Control characters there move the cursor, hide lines, set the window's
 * title or answer on the user's behalf; marks of the writing direction show a text in another order.
 */

/** All but tab and newline; a carriage return only where it ends a line. */
const CONTROLS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)/g;

/** The text with `\u001b` for an escape, as JSON has it, and the like: nothing acts, all is seen. */
export function plainText(text: string): string {
  return text.replace(
    CONTROLS,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The same where standard output is a terminal; as it is for a file or a pipe. */
export function shownText(text: string): string {
  return process.stdout.isTTY === true ? plainText(text) : text;
}
