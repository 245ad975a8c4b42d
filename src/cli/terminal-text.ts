/**
 * Text of others on a terminal: names in checkpoints and repositories, messages that quote them,
 * and what models write. Control characters there move the cursor, hide lines, set the window's
 * title or answer on the user's behalf; marks of writing direction show a text in another order.
 */

/** All but tab and newline; a carriage return only where it ends a line. */
const CONTROLS = /(?![\t\n\r])\p{Cc}|\r(?!\n)|\p{Bidi_Control}/gu;

/** The text with `\u001b` for an escape and so on, as in JSON: nothing acts, all is seen. */
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
