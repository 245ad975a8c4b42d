/** Incremental decoding of tokens to text, through the stages of `decoder-stages.ts`. */
import type { Piece, Stage } from "./decoder-stages.ts";
import type { Vocabulary } from "./vocabulary.ts";

export interface DecodeOptions {
  /** Leave out special tokens (true by default). */
  readonly skipSpecialTokens?: boolean | undefined;
  /** Special tokens that are not left out; a short list. */
  readonly shownTokenIds?: readonly number[];
  /**
   * False: an added token right after another one is written unchanged, without the space that the
   * decoder would put between them. True by default. Has an effect only if special tokens are kept.
   */
  readonly spacesBetweenSpecialTokens?: boolean;
}

/** Text of `pieces` after the stages from `from` on. */
function textAfter(stages: readonly Stage[], from: number, pieces: Piece[]): string {
  let current = pieces;
  for (let i = from; i < stages.length; i++) {
    const [only] = current;
    if (only === undefined) return "";
    const stage = stages[i];
    if (stage === undefined) break;
    // One piece is the usual case and takes the cheap path.
    current = current.length === 1 ? stage.push(only) : current.flatMap((all) => stage.push(all));
  }
  return current.length === 1 ? (current[0]?.text ?? "") : textOfPieces(current);
}

/** More tokens than a character has bytes; a stream's state does not depend on earlier tokens. */
const primingTokens = 8;

const textOfPieces = (pieces: readonly Piece[]): string =>
  pieces.map((piece) => piece.text).join("");

/**
 * Incremental detokenizer of one sequence. The concatenated results of `push` and the final `flush`
 * equal the text of all ids decoded at once; no result ends inside a character; the cost of a token
 * does not depend on the number of earlier tokens.
 */
export class StreamDecoder {
  readonly #vocabulary: Vocabulary;
  readonly #options: DecodeOptions;
  readonly #stages: readonly Stage[];
  #afterAdded: boolean;

  constructor(
    vocabulary: Vocabulary,
    stages: readonly Stage[],
    options: DecodeOptions = {},
    afterAdded = false,
  ) {
    this.#vocabulary = vocabulary;
    this.#options = options;
    this.#stages = stages;
    this.#afterAdded = afterAdded;
  }

  /**
   * Takes the last tokens of the prompt without returning their text, so that generated text is
   * decoded as a continuation: a SentencePiece model's first word keeps its space. Call it before
   * the first `push`.
   */
  prime(promptIds: readonly number[] | Int32Array): void {
    this.push(promptIds.slice(-primingTokens));
  }

  /** The text that these ids complete; "" while a character is unfinished. Unknown ids add none. */
  push(ids: Iterable<number>): string {
    let text = "";
    for (const id of ids) text += this.#pushOne(id);
    return text;
  }

  #pushOne(id: number): string {
    const token = this.#vocabulary.token(id);
    if (token === null) return "";
    const { skipSpecialTokens = true, spacesBetweenSpecialTokens = true } = this.#options;
    if (skipSpecialTokens && this.#vocabulary.isSpecial(id) && !this.#shows(id)) return "";
    const added = this.#vocabulary.isAdded(id);
    const spaced = skipSpecialTokens || spacesBetweenSpecialTokens;
    const bare = added && this.#afterAdded && !spaced;
    this.#afterAdded = added;
    const kind = bare ? "bare" : added ? "added" : "plain";
    return textAfter(this.#stages, 0, [{ text: token, kind }]);
  }

  #shows(id: number): boolean {
    return this.#options.shownTokenIds?.includes(id) === true;
  }

  /** Ends the stream; returns held-back text, with U+FFFD for an unfinished character. */
  flush(): string {
    let text = "";
    for (const [i, stage] of this.#stages.entries()) {
      text += textAfter(this.#stages, i + 1, stage.finish());
    }
    return text;
  }

  /** An independent decoder in the same state, for a forked sequence. */
  fork(): StreamDecoder {
    const stages = this.#stages.map((stage) => stage.fork());
    return new StreamDecoder(this.#vocabulary, stages, this.#options, this.#afterAdded);
  }
}
