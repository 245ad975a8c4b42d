/** Longest line of headings before a text, in UTF-16 units; the innermost are kept. */
const HEADINGS_LENGTH_MAX = 300;

/**
 * The text that a chunk's vector is made of: its headings, the outermost first, above its own text,
 * since a paragraph alone often does not say what it is about.
 */
export function passageOf(text: string, headings: readonly string[]): string {
  const line = headingLine(headings);
  return line === "" ? text : `${line}\n\n${text}`;
}

function headingLine(headings: readonly string[]): string {
  const line = headings
    .map((heading) => heading.trim())
    .filter((heading) => heading !== "")
    .join(" > ");
  return line.length <= HEADINGS_LENGTH_MAX
    ? line
    : line.slice(-HEADINGS_LENGTH_MAX).toWellFormed();
}
