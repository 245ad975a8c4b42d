/** Any text as text: names of traces and models come from files of others. */

/**
 * Characters that XML does not allow, that end a text of one line, or that change the order in
 * which others are shown. Halves of surrogate pairs are among them.
 */
const UNFIT = /\p{Cc}|\p{Cs}|\p{Bidi_Control}|[\u2028\u2029\uFFFE\uFFFF]/gu;

/** Text that is safe between tags and in attributes of HTML and SVG. */
export function escaped(text: string): string {
  return text.replace(UNFIT, "\uFFFD").replace(/[&<>"']/g, (sign) => ENTITIES[sign] ?? "");
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
