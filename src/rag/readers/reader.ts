/** What turns a file's bytes into documents. */
import type { SourceDocument } from "#rag/texts";

/** A file as it was found. */
export interface FileContent {
  /** The document's name in the corpus. */
  readonly id: string;
  readonly bytes: Uint8Array;
  /** SHA-256 of the bytes in hex. */
  readonly hash: string;
}

/** A part of a file that could not be read, while others could: a broken row. */
export interface ReadProblem {
  /** The name that its document would have. */
  readonly id: string;
  /** As the message of an error. */
  readonly problem: string;
}

/** Understands files of one kind. */
export interface Reader {
  /** E.g. `markdown`. */
  readonly name: string;
  /** Endings of names that it reads, in lower case with the dot. */
  readonly endings: readonly string[];
  /**
   * The documents in a file: mostly one; a file of rows (JSON lines, CSV) has one for each row.
   * Throws INVALID_ARGUMENT where the bytes are not what their name says.
   */
  read(file: FileContent): AsyncIterable<SourceDocument | ReadProblem>;
}
