/**
 * Makes untrusted text safe for a terminal: names in checkpoints and repositories, messages that
 * quote them, and model output. Control characters could move the cursor, hide lines, set the
 * window's title or answer on the user's behalf; bidirectional marks show a text in another order.
 */

/** Control characters except tab, newline, and a carriage return before a newline; bidi marks. */
const CONTROLS = /(?![\t\n\r])\p{Cc}|\r(?!\n)|\p{Bidi_Control}/gu;

/** Escapes control characters as in JSON (`\u001b`): none takes effect, all are visible. */
export function plainText(text: string): string {
  return text.replace(
    CONTROLS,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** `plainText` if standard output is a terminal; unchanged for a file or a pipe. */
export function shownText(text: string): string {
  return process.stdout.isTTY === true ? plainText(text) : text;
}
