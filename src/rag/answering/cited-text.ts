/** An answer as it grows: its text, and which source is cited for which part of it. */
import type { AskEvent, Citation, Source } from "./answer.ts";
import { type AnswerPiece, CitationFilter } from "./citation-filter.ts";
import { claimAt, supportOf } from "./support.ts";
import { isContent, wordsOf } from "./words.ts";

/** A citation that waits for the rest of its sentence, or has been told. */
interface Mark {
  readonly number: number;
  readonly at: number;
  /** Its place in the text without markers, and where its claim may begin. */
  readonly place: number;
  readonly from: number;
}

/** Takes the model's text, and tells it with checked citations. */
export class CitedText {
  readonly #sources: readonly Source[];
  readonly #filter: CitationFilter;
  /** As it is shown, and without citations. */
  #shown = "";
  #plain = "";
  #waiting: Mark[] = [];
  /** The last citation's place and the beginning of its claim. */
  #last = { place: 0, from: 0 };
  readonly citations: Citation[] = [];
  readonly dropped: number[] = [];

  constructor(sources: readonly Source[]) {
    this.#sources = sources;
    this.#filter = new CitationFilter(sources.length);
  }

  get text(): string {
    return this.#shown;
  }

  /** The text without citations. */
  get plain(): string {
    return this.#plain;
  }

  /** More of what the model wrote. */
  *feed(text: string): Generator<AskEvent> {
    for (const piece of this.#filter.feed(text)) yield* this.#take(piece);
  }

  /** A sentence of a source, with its number. */
  *quote(number: number, sentence: string): Generator<AskEvent> {
    const gap = this.#shown === "" ? "" : " ";
    this.#plain += gap + sentence;
    yield this.#showing(`${gap}${sentence} [${number}]`);
    const at = this.#shown.length - `[${number}]`.length;
    yield this.#cited({ number, at, claim: sentence, support: "verbatim", by: "match" });
  }

  /**
   * The rest. An answer without a citation gets one of the first source that has its very words:
   * small models leave them out.
   */
  *end(isRefusal: boolean): Generator<AskEvent> {
    for (const piece of this.#filter.end()) yield* this.#take(piece);
    for (const mark of this.#waiting) yield this.#told(mark);
    this.#waiting = [];
    if (isRefusal || this.citations.length > 0 || this.dropped.length > 0) return;
    const claim = this.#plain.trim();
    const source = this.#sources.find(({ chunk }) => supportOf(claim, chunk.text) === "verbatim");
    if (source === undefined) return;
    const at = this.#shown.length + 1;
    const { number } = source;
    yield this.#showing(` [${number}]`);
    yield this.#cited({ number, at, claim, support: "verbatim", by: "match" });
  }

  *#take(piece: AnswerPiece): Generator<AskEvent> {
    if (piece.type === "dropped") {
      this.dropped.push(piece.number);
      return;
    }
    if (piece.type === "text") {
      this.#plain += piece.text;
      yield this.#showing(piece.text);
      return;
    }
    const at = this.#shown.length + piece.text.indexOf("[");
    yield this.#showing(piece.text);
    const mark = this.#mark(piece.number, at);
    // A marker that begins a sentence is checked when the sentence is there.
    const before = this.#plain.slice(mark.from, mark.place);
    if (wordsOf(before).some(isContent)) yield this.#told(mark);
    else this.#waiting.push(mark);
  }

  #mark(number: number, at: number): Mark {
    const place = this.#plain.length;
    const isNew = wordsOf(this.#plain.slice(this.#last.place)).length > 0;
    // `[1][2]` cite the same.
    const from = isNew ? this.#last.place : this.#last.from;
    this.#last = { place, from };
    return { number, at, place, from };
  }

  #told({ number, at, place, from }: Mark): AskEvent {
    const claim = claimAt(this.#plain, place, from);
    const text = this.#sources[number - 1]?.chunk.text ?? "";
    return this.#cited({ number, at, claim, support: supportOf(claim, text), by: "model" });
  }

  #cited(citation: Citation): AskEvent {
    this.citations.push(citation);
    return { type: "citation", citation };
  }

  #showing(text: string): AskEvent {
    this.#shown += text;
    return { type: "text", text };
  }
}
