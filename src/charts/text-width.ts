/** How wide texts are, of a font that is not known: rather too wide than too narrow. */

const NARROW = /[ijl.,:;'|!()[\]ft ]/;
const WIDE = /[mwMW@%&—…]/;
const UPPER = /[A-Z0-9#+=<>×≤≥–-]/;
/** Of other alphabets and pictures, as wide as they may be. */
const FOREIGN = /(?!\p{Script=Latin})[\p{L}\p{S}]/u;

/** Pixels of a text at a font size. */
export function textWidth(text: string, size: number): number {
  let widths = 0;
  for (const character of text) widths += widthOf(character);
  return widths * size;
}

function widthOf(character: string): number {
  if (NARROW.test(character)) return 0.34;
  if (WIDE.test(character)) return 0.92;
  if (UPPER.test(character)) return 0.66;
  return FOREIGN.test(character) ? 1.1 : 0.58;
}

/** The text, or its beginning and an ellipsis where it is wider than `most` pixels. */
export function fitted(text: string, size: number, most: number): string {
  let width = 0;
  let kept = "";
  const room = most - textWidth("…", size);
  for (const character of text) {
    const next = width + widthOf(character) * size;
    if (next > room && textWidth(text, size) > most) return `${kept.trimEnd()}…`;
    width = next;
    kept += character;
  }
  return text;
}

/** The text in lines of at most `most` pixels; what is left after `count` lines is cut off. */
export function wrapped(text: string, size: number, { most, count }: Room): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/).filter((part) => part !== "")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line === "" || textWidth(longer, size) <= most || lines.length === count - 1) line = longer;
    else {
      lines.push(line);
      line = word;
    }
  }
  return [...lines, line].filter((one) => one !== "").map((one) => fitted(one, size, most));
}

export interface Room {
  readonly most: number;
  readonly count: number;
}
