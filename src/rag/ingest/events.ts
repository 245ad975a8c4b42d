/** What ingestion tells while it works, and at its end. */

/** Numbers so far. */
export interface IngestCounts {
  /** Files below the roots. */
  readonly files: number;
  /** Bytes of files that were read. */
  readonly bytes: number;
  /** Documents that were read, unchanged ones and rows of files included. */
  readonly documents: number;
  /** Documents of these whose chunks are stored now, new or instead of earlier ones. */
  readonly stored: number;
  /** Documents of these that were stored before, and did not change. */
  readonly unchanged: number;
  /** Documents of these without text. */
  readonly empty: number;
  /** Files that were not read: links, pipes, devices. */
  readonly skipped: number;
  /** Files and rows that could not be read. */
  readonly failed: number;
  /** Documents that were removed from the corpus, since their files are gone. */
  readonly removed: number;
  readonly chunksCut: number;
  readonly chunksEmbedded: number;
  readonly chunksStored: number;
  readonly seconds: number;
  /** Stored ones, since the start. */
  readonly chunksPerSecond: number;
}

/** A file or row that is not in the corpus as it stands, and why. */
export interface IngestProblem {
  /** The document's name. */
  readonly id: string;
  readonly reason: string;
}

/** The end of a call. */
export interface IngestReport extends IngestCounts {
  /** Could not be read; what the corpus had of them before is still there. */
  readonly failures: readonly IngestProblem[];
  /** Were not read on purpose. */
  readonly skips: readonly IngestProblem[];
}

/** What a call tells while it works. */
export type IngestEvent =
  /** A document's turn is over. `chunks`: those that it has in the corpus now. */
  | {
      readonly type: "document";
      readonly id: string;
      readonly state: "stored" | "unchanged" | "empty" | "removed";
      readonly chunks: number;
    }
  | ({ readonly type: "problem"; readonly state: "skipped" | "failed" } & IngestProblem)
  /** Twice a second at most. */
  | ({ readonly type: "progress" } & IngestCounts)
  /** The last event of a call. */
  | ({ readonly type: "report" } & IngestReport);
