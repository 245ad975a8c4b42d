/** Literals of llguidance's dialect of Lark, the language that grammars are translated to. */

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, "0");

/** A string literal. */
export function larkString(text: string): string {
  // JSON's escapes, and one for the control character that JSON does not escape.
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}

/** A literal character of a regular expression, in and out of brackets. */
export function regexCharacter(code: number): string {
  const letter = (code >= 48 && code <= 57) || (code >= 65 && code <= 90);
  if (letter || (code >= 97 && code <= 122)) return String.fromCharCode(code);
  return `\\u{${hex(code, 1)}}`;
}

const ascii: Readonly<Record<string, string>> = {
  d: "[0-9]",
  D: "[^0-9]",
  w: "[0-9A-Za-z_]",
  W: "[^0-9A-Za-z_]",
};
const controls: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/**
 * A regular expression literal. `\d` and `\w` are ASCII, as in JavaScript, and so in JSON schemas.
 */
export function larkRegex(pattern: string): string {
  const body = pattern.replace(/\\([\s\S])|[/\n\r\t]/g, (match, escaped: string | undefined) => {
    if (escaped === undefined) return match === "/" ? "\\/" : (controls[match] ?? match);
    return ascii[escaped] ?? match;
  });
  return `/${body === "" ? "(?:)" : body}/`;
}
