import { beginningOf, type OutputParser, type OutputPart } from "./output-part.ts";

/** What a text may begin with, and what reads it then. */
export interface Beginning {
  /** Beginnings of the text behind white space; the longest that fits counts. */
  readonly begins: readonly string[];
  create(): OutputParser;
}

/** Chooses the parser of a text by its beginning. */
export class BeginningParser implements OutputParser {
  readonly #beginnings: readonly Beginning[];
  readonly #otherwise: () => OutputParser;
  #chosen: OutputParser | null = null;
  #buffer = "";

  constructor(beginnings: readonly Beginning[], otherwise: () => OutputParser) {
    this.#beginnings = beginnings;
    this.#otherwise = otherwise;
  }

  push(text: string): OutputPart[] {
    if (this.#chosen !== null) return this.#chosen.push(text);
    this.#buffer += text;
    const beginning = beginningOf(this.#buffer);
    const marks = this.#beginnings.flatMap(({ begins }) => begins);
    const isUndecided =
      beginning !== null && marks.some((mark) => mark !== beginning && mark.startsWith(beginning));
    return isUndecided ? [] : this.#choose(beginning).push(this.#buffer);
  }

  finish(): OutputPart[] {
    if (this.#chosen !== null) return this.#chosen.finish();
    const parser = this.#choose(beginningOf(this.#buffer));
    return [...parser.push(this.#buffer), ...parser.finish()];
  }

  #choose(beginning: string | null): OutputParser {
    let longest = 0;
    let create = this.#otherwise;
    for (const { begins, create: own } of this.#beginnings) {
      for (const mark of begins) {
        if (mark.length <= longest || beginning?.startsWith(mark) !== true) continue;
        longest = mark.length;
        create = own;
      }
    }
    this.#chosen = create();
    return this.#chosen;
  }
}

/** All of it is content. */
export class PlainParser implements OutputParser {
  push(text: string): OutputPart[] {
    return text === "" ? [] : [{ kind: "content", text }];
  }

  finish(): OutputPart[] {
    return [];
  }
}
