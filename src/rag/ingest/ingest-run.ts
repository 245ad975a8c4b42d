/** What the parts of one call of `ingest` share. */
import type { Timer } from "#base";
import type { ChunkLimits } from "#rag/chunks";
import type { Embedder } from "#rag/embedders";
import type { StoredDocument, VectorStore } from "#rag/stores";
import type { Attributes, Chunk } from "#rag/texts";
import type { IngestSettings } from "./config.ts";
import type { IngestBooks } from "./ingest-books.ts";
import { retried } from "./retries.ts";

/** The call's options, checked, and what its parts tell each other. */
export interface RunParts {
  readonly store: VectorStore;
  readonly embedder: Embedder;
  readonly corpus: string;
  /** Of the user, for all chunks. */
  readonly attributes: Attributes;
  readonly settings: IngestSettings;
  readonly timer: Timer;
  /** Ends everything: the caller's, or the first failure of a part. */
  readonly signal: AbortSignal;
  readonly books: IngestBooks;
  /** Documents of the corpus by name, as they are now. */
  readonly stored: Map<string, StoredDocument>;
  /** Null: all files are looked at. */
  readonly attention: Attention | null;
}

/** What a round looks at, where others were before. */
export interface Attention {
  /** A folder before its entries are read; `only`: of its entries this one counts. */
  onFolder(path: string, only: string | null): void;
  /** Whether a file may have changed since the last round. */
  isWanted(path: string): boolean;
  /** Whether addresses are read. */
  readonly hasAddresses: boolean;
}

/** The parts, with what follows from them. */
export class IngestRun {
  readonly parts: RunParts;
  readonly limits: ChunkLimits;
  /** All but the bytes that a document's chunks depend on. */
  readonly recipe: string;

  constructor(parts: RunParts) {
    this.parts = parts;
    const { chunkTokens, overlapTokens } = parts.settings;
    const most = Math.min(chunkTokens, parts.embedder.tokensMax);
    this.limits = { chunkTokens: most, overlapTokens: Math.min(overlapTokens, most >> 1) };
    const own = Object.entries(parts.attributes).sort(([one], [other]) => (one < other ? -1 : 1));
    this.recipe = JSON.stringify([RECIPE, this.limits.chunkTokens, this.limits.overlapTokens, own]);
  }

  /** A call of the store or the embedder, made again a bounded number of times. */
  retried<Result>(call: () => Promise<Result>): Promise<Result> {
    const { settings, timer, signal } = this.parts;
    const { attempts, backoffMs } = settings;
    return retried(call, { attempts, backoffMs, timer, signal });
  }
}

/** Raised when readers or the chunker cut documents in another way than before. */
const RECIPE = 1;

/**
 * How a document's chunks come to the store. `add`: there are none of it, or some of the same
 * version. `replace`: beside those of an earlier version, which are removed then. `renew`: after
 * those, since its vectors would take too much memory until they are gone.
 */
export type StoringWay = "add" | "replace" | "renew";

/** A document that was cut. */
export interface CutDocument {
  readonly id: string;
  /** Its version without the number of chunks. */
  readonly content: string;
  readonly way: StoringWay;
  /** All of its chunks, with its version; none where it has no text. */
  readonly chunks: readonly Chunk[];
  /** The chunks that are not in the store yet, by index, and the text of their vectors. */
  readonly missing: readonly { readonly index: number; readonly passage: string }[];
}

/** A chunk with its vector, of a document of which more may come; null: it has no missing chunk. */
export interface EmbeddedChunk {
  readonly document: CutDocument;
  readonly part: { readonly index: number; readonly vector: Float32Array } | null;
}
