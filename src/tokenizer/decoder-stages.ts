/**
 * tokenizer.json's `decoder` as a chain of stages that take one token at a time.
 *
 * Hugging Face's libraries decode a whole list; here a list is a stream that ended, so incremental
 * and whole decoding agree by construction, each token costs the same, and no token is decoded
 * twice. Semantics are the Rust library's, with one exception that streaming forces: in a run of
 * byte-fallback tokens that is not UTF-8, only the wrong bytes become U+FFFD, not the whole run.
 */
import { byteOfFallback, bytesOfByteLevel } from "./byte-alphabet.ts";
import { Utf8Stream } from "./utf8-stream.ts";

/** A token, or text made of tokens, that passes through the chain. */
export interface Piece {
  readonly text: string;
  /** How stages treat it: `bare` pieces (spacing switched off) pass unchanged. */
  readonly kind: "plain" | "added" | "bare";
}

/** One stage of the chain. */
export interface Stage {
  push(piece: Piece): Piece[];
  /** The pieces that were held back, at the end of the stream. */
  finish(): Piece[];
  /** An independent stage in the same state. */
  fork(): Stage;
}

const plain = (text: string): Piece => ({ text, kind: "plain" });
const some = (text: string): Piece[] => (text === "" ? [] : [plain(text)]);

/** A byte-level token, and its text if it consists of whole characters; null otherwise. */
interface ByteLevelToken {
  readonly bytes: Uint8Array;
  readonly text: string | null;
}

function byteLevelToken(spelling: string): ByteLevelToken {
  const bytes = bytesOfByteLevel(spelling);
  const stream = new Utf8Stream();
  const text = stream.push(bytes);
  return { bytes, text: stream.holds ? null : text };
}

/** Byte-level tokens: characters of the byte alphabet, decoded across token boundaries. */
export class ByteLevelStage implements Stage {
  readonly #utf8: Utf8Stream;
  /** Tokens by spelling, shared by all streams of a tokenizer. No larger than the vocabulary. */
  readonly #known: Map<string, ByteLevelToken>;

  constructor(utf8 = new Utf8Stream(), known = new Map<string, ByteLevelToken>()) {
    this.#utf8 = utf8;
    this.#known = known;
  }

  push(piece: Piece): Piece[] {
    if (piece.kind !== "plain") return [...some(this.#utf8.flush()), piece];
    const { bytes, text } = this.#token(piece.text);
    return some(text === null || this.#utf8.holds ? this.#utf8.push(bytes) : text);
  }

  #token(spelling: string): ByteLevelToken {
    let token = this.#known.get(spelling);
    if (token === undefined) {
      token = byteLevelToken(spelling);
      this.#known.set(spelling, token);
    }
    return token;
  }

  finish(): Piece[] {
    return some(this.#utf8.flush());
  }

  fork(): Stage {
    return new ByteLevelStage(this.#utf8.fork(), this.#known);
  }
}

/** SentencePiece byte fallback: `<0xE4>` is a byte, everything else is text. */
export class ByteFallbackStage implements Stage {
  readonly #utf8: Utf8Stream;

  constructor(utf8 = new Utf8Stream()) {
    this.#utf8 = utf8;
  }

  push(piece: Piece): Piece[] {
    const byte = piece.kind === "bare" ? null : byteOfFallback(piece.text);
    if (byte !== null) return some(this.#utf8.push(Uint8Array.of(byte)));
    if (!this.#utf8.holds) return [piece];
    return [...some(this.#utf8.flush()), piece];
  }

  finish(): Piece[] {
    return some(this.#utf8.flush());
  }

  fork(): Stage {
    return new ByteFallbackStage(this.#utf8.fork());
  }
}

/** A stage that maps each token by itself; `first` marks the stream's first token. */
export class MapStage implements Stage {
  readonly #map: (text: string, first: boolean) => string;
  #first: boolean;

  constructor(map: (text: string, first: boolean) => string, first = true) {
    this.#map = map;
    this.#first = first;
  }

  push(piece: Piece): Piece[] {
    const first = this.#first;
    this.#first = false;
    if (piece.kind === "bare") return [piece];
    return [{ ...piece, text: this.#map(piece.text, first) }];
  }

  finish(): Piece[] {
    return [];
  }

  fork(): Stage {
    return new MapStage(this.#map, this.#first);
  }
}

/** Replaces the suffix that marks the end of a word by a space; on the last token, by nothing. */
export class SuffixStage implements Stage {
  readonly #suffix: string;
  #held: string;

  constructor(suffix: string, held = "") {
    this.#suffix = suffix;
    this.#held = held;
  }

  push(piece: Piece): Piece[] {
    const before = some(this.#held.replaceAll(this.#suffix, " "));
    this.#held = "";
    if (piece.kind === "bare") return [...before, piece];
    const start = piece.text.indexOf(this.#suffix);
    if (start < 0) return [...before, piece];
    this.#held = piece.text.slice(start);
    return [...before, ...some(piece.text.slice(0, start))];
  }

  finish(): Piece[] {
    const text = this.#held.replaceAll(this.#suffix, "");
    this.#held = "";
    return some(text);
  }

  fork(): Stage {
    return new SuffixStage(this.#suffix, this.#held);
  }
}

/** The characters that a strip removes. */
export interface StripOptions {
  /** One character. */
  readonly content: string;
  /** Maximum numbers of characters removed at the start and at the end. */
  readonly start: number;
  readonly stop: number;
}

/** Strips the start and the end of the whole text (a Strip after a Fuse). */
export class StripTextStage implements Stage {
  readonly #options: StripOptions;
  #toCut: number;
  /** Trailing `content` characters that may turn out to be the end. */
  #held: number;

  constructor(options: StripOptions, toCut = options.start, held = 0) {
    this.#options = options;
    this.#toCut = toCut;
    this.#held = held;
  }

  push(piece: Piece): Piece[] {
    const { content, stop } = this.#options;
    if (piece.text === "") return [];
    if (piece.kind === "bare") {
      this.#toCut = 0;
      return [...this.#release(), piece];
    }
    let text = piece.text;
    while (this.#toCut > 0 && text.startsWith(content)) {
      text = text.slice(content.length);
      this.#toCut--;
    }
    if (text === "") return [];
    this.#toCut = 0;
    text = content.repeat(this.#held) + text;
    this.#held = 0;
    while (this.#held < stop && text.endsWith(content)) {
      text = text.slice(0, -content.length);
      this.#held++;
    }
    return some(text);
  }

  #release(): Piece[] {
    const held = this.#held;
    this.#held = 0;
    return some(this.#options.content.repeat(held));
  }

  finish(): Piece[] {
    return [];
  }

  fork(): Stage {
    return new StripTextStage(this.#options, this.#toCut, this.#held);
  }
}
