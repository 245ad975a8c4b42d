/** Citations in a stream of text: `[2]` and `[1, 3]`, checked before they are shown. */

/** A piece of an answer, in order. */
export type AnswerPiece =
  | { readonly type: "text"; readonly text: string }
  /** A number that was given; its text `[n]` comes with it. */
  | { readonly type: "citation"; readonly number: number; readonly text: string }
  /** A number that was not given: it is left out of the text. */
  | { readonly type: "dropped"; readonly number: number };

/** A citation, or its beginning at the end of what has come so far, with the space before it. */
const MARKER = /[^\S\n]*\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]/;
const OPEN = /[^\S\n]*(?:\[[\d\s,]{0,40})?$/;
/** Indexing in code that was quoted from a source, where a space keeps it from being a citation. */
const INDEXING = /(?<=[\p{L}\p{N}_)\]"'])\[ (?=\d[\d\s,]*\])/gu;

/** Takes text as it comes, and gives it back in pieces. */
export class CitationFilter {
  readonly #sources: number;
  #held = "";
  /** The last character given out: what stands before a bracket. */
  #last = "";

  /** Sources are numbered from 1 to `sources`. */
  constructor(sources: number) {
    this.#sources = sources;
  }

  /** The pieces that are certain with this text. */
  feed(text: string): AnswerPiece[] {
    this.#held += text;
    const pieces = this.#whole();
    const open = OPEN.exec(this.#held)?.index ?? this.#held.length;
    pieces.push(...this.#text(this.#held.slice(0, open)));
    this.#held = this.#held.slice(open);
    return pieces;
  }

  /** The rest, at the end of the text. */
  end(): AnswerPiece[] {
    const pieces = [...this.#whole(), ...this.#text(this.#held.trimEnd())];
    this.#held = "";
    return pieces;
  }

  /** All pieces up to the last complete marker. */
  #whole(): AnswerPiece[] {
    const pieces: AnswerPiece[] = [];
    for (let found = MARKER.exec(this.#held); found !== null; found = MARKER.exec(this.#held)) {
      const [marker, numbers = ""] = found;
      pieces.push(...this.#text(this.#held.slice(0, found.index)));
      this.#held = this.#held.slice(found.index + marker.length);
      const space = marker.slice(0, marker.indexOf("["));
      pieces.push(...this.#cited([...new Set(numbers.split(",").map(Number))], space));
    }
    return pieces;
  }

  #cited(numbers: readonly number[], space: string): AnswerPiece[] {
    const pieces: AnswerPiece[] = [];
    let gap = space;
    for (const number of numbers) {
      if (number < 1 || number > this.#sources) pieces.push({ type: "dropped", number });
      else {
        pieces.push({ type: "citation", number, text: `${gap}[${number}]` });
        this.#last = "]";
        gap = "";
      }
    }
    return pieces;
  }

  #text(text: string): AnswerPiece[] {
    if (text === "") return [];
    const shown = `${this.#last}${text}`.replace(INDEXING, "[").slice(this.#last.length);
    this.#last = text.at(-1) ?? "";
    return [{ type: "text", text: shown }];
  }
}
