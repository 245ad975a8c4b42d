/** What the process that ingests and a reading process tell each other. */
import type { ErrorCode } from "#base";
import type { Section, SourceDocument } from "#rag/texts";
import type { ReadProblem } from "./reader.ts";

/** A file to read: at a path, or bytes that came from an address. */
export interface ReadJob {
  /** The document's name in the corpus. */
  readonly id: string;
  /** By which its kind is known: a path or an address's last part. */
  readonly name: string;
  /** Null: `bytes` are the content. */
  readonly path: string | null;
  readonly bytes: Uint8Array | null;
  /** E.g. `text/html`; null where the name alone tells. */
  readonly mediaType: string | null;
  /** Longer files are refused. */
  readonly bytesMax: number;
}

export type ToReader =
  | { readonly type: "read"; readonly job: ReadJob }
  /** After `hash`: whether the file's documents are wanted. */
  | { readonly type: "go"; readonly wanted: boolean }
  /** One message of items was taken. */
  | { readonly type: "more" };

/** Part of what a file has: sections of the last document whose head came, or a new one. */
export type ReadItem =
  | { readonly head: Omit<SourceDocument, "sections"> }
  | { readonly section: Section }
  | { readonly failure: ReadProblem };

export type FromReader =
  /** Once, when it has started. */
  | { readonly type: "ready" }
  | { readonly type: "hash"; readonly hash: string; readonly bytes: number }
  | { readonly type: "items"; readonly items: readonly ReadItem[] }
  /** The file is done. `residentBytes`: memory of the process. */
  | { readonly type: "end"; readonly residentBytes: number }
  | {
      readonly type: "failed";
      readonly code: ErrorCode;
      readonly message: string;
      readonly residentBytes: number;
    };

/** Messages of items that may be on their way: the next is made while one is taken. */
export const MESSAGES_AHEAD = 2;
