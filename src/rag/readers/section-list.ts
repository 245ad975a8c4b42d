/** Sections of a text are made by its places. */
import type { Section } from "#rag/texts";

/** Longest heading that a section carries, in UTF-16 units; longer ones are text. */
export const HEADING_LENGTH_MAX = 200;
/** Longest text of a section, in UTF-16 units, so that no message and no step is long. */
const SECTION_LENGTH_MAX = 2 ** 16;

/** Collects sections of one text, in the order of the text; knows their lines. */
export class SectionList {
  readonly sections: Section[] = [];
  readonly #text: string;
  #at = 0;
  #line = 1;

  constructor(text: string) {
    this.#text = text;
  }

  /** Adds the text from `from` up to `to`, unless it is white space alone. */
  add(from: number, to: number, headings: readonly string[]): void {
    const text = this.#text.slice(from, to);
    if (text.trim() === "") return;
    this.sections.push({ text, line: this.#lineAt(from), page: null, headings });
  }

  #lineAt(place: number): number {
    for (; this.#at < place; this.#at++) {
      if (this.#text.charCodeAt(this.#at) === 10) this.#line++;
    }
    return this.#line;
  }
}

/** A heading without line breaks, cut off where it is too long. */
export function shortHeading(heading: string): string {
  const line = heading.replace(/\s+/g, " ").trim();
  if (line.length <= HEADING_LENGTH_MAX) return line;
  return `${line.slice(0, HEADING_LENGTH_MAX - 1).toWellFormed()}…`;
}

/** A section without halves of characters, which no store can write: U+FFFD stands for them. */
export function wellFormed(section: Section): Section {
  const { text, headings } = section;
  if (text.isWellFormed() && headings.every((heading) => heading.isWellFormed())) return section;
  const whole = headings.map((heading) => heading.toWellFormed());
  return { ...section, text: text.toWellFormed(), headings: whole };
}

/**
 * The same sections with long ones in parts, each of which ends with a line or, where lines are
 * long, with a word.
 */
export function* boundedSections(sections: Iterable<Section>): Generator<Section> {
  for (const section of sections) {
    let { text, line } = section;
    while (text.length > SECTION_LENGTH_MAX) {
      const end = partEnd(text);
      const part = text.slice(0, end);
      yield { ...section, text: part, line };
      if (line !== null && section.lastLine === undefined) line += part.split("\n").length - 1;
      text = text.slice(end);
    }
    yield { ...section, text, line };
  }
}

function partEnd(text: string): number {
  const newline = text.lastIndexOf("\n", SECTION_LENGTH_MAX - 1) + 1;
  if (newline > SECTION_LENGTH_MAX / 2) return newline;
  const space = text.lastIndexOf(" ", SECTION_LENGTH_MAX - 1) + 1;
  if (space > SECTION_LENGTH_MAX / 2) return space;
  const code = text.charCodeAt(SECTION_LENGTH_MAX);
  return code >= 0xdc00 && code <= 0xdfff ? SECTION_LENGTH_MAX - 1 : SECTION_LENGTH_MAX;
}
