import type { Attributes } from "./chunk.ts";

/** A stretch of a document's text that belongs together: below a heading, a function, a page. */
export interface Section {
  /** As it stands in the document, without the heading's own line. */
  readonly text: string;
  /** The line of its first character, from 1; null where the format has no lines. */
  readonly line: number | null;
  /**
   * The line of its last character, where the text's own lines are not the document's (a row of a
   * table): chunks of it have all of its lines. Absent elsewhere.
   */
  readonly lastLine?: number;
  readonly page: number | null;
  /** Headings above it, the outermost first; in source code names of what encloses it. */
  readonly headings: readonly string[];
}

/** A document as a reader understood it. */
export interface SourceDocument {
  /** Its name in the corpus. */
  readonly id: string;
  /** SHA-256 of its bytes in hex. */
  readonly hash: string;
  /** In order; none where nothing in it is text. */
  readonly sections: readonly Section[];
  readonly attributes: Attributes;
}
