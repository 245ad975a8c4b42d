/** How uploaded files become chunks of a corpus, whatever reads and embeds them. */
import type { Attributes } from "#rag/texts";
import type { Chunking, MemberError } from "./records.ts";

/** An uploaded file. */
export interface IngestFile {
  readonly id: string;
  /** As it was uploaded: its ending says what it is. */
  readonly filename: string;
  /** Of its bytes, on the disk. */
  readonly path: string;
  readonly bytes: number;
}

/** Files that are put into one corpus in the same way. */
export interface IngestJob {
  /** Made unless it exists. */
  readonly corpus: string;
  readonly files: readonly IngestFile[];
  /** Of all chunks. */
  readonly attributes: Attributes;
  readonly chunking: Chunking;
}

/** What became of a file. */
export type IngestOutcome =
  | { readonly state: "stored"; readonly usageBytes: number }
  | ({ readonly state: "failed" } & MemberError);

/** Puts files into corpora. */
export interface FileIngest {
  /**
   * An outcome for each file, in order; all chunks of a stored file can be found. Doing it again
   * changes nothing but what is not there yet, and attributes that are others now. Rejects with the
   * store's or embedder's error, or with the signal's reason.
   */
  ingest(job: IngestJob, signal: AbortSignal): Promise<readonly IngestOutcome[]>;
  /** Removes the chunks of a file; without effect where there are none. */
  remove(corpus: string, fileId: string): Promise<void>;
  /** The texts of a file's chunks, in order, in parts. Throws HttpError 400 for too long a file. */
  texts(corpus: string, fileId: string): Promise<AsyncIterable<readonly string[]>>;
  /** The file of a chunk's `documentId`; null: of no uploaded file. */
  fileIdOf(documentId: string): string | null;
}
