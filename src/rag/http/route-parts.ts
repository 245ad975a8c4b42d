import type { Admit } from "#server";
import type { FileIngest } from "./file-ingest.ts";
import type { Chunking } from "./records.ts";
import type { StoreSearch } from "./store-search.ts";
import type { UploadedFiles } from "./uploaded-files.ts";
import type { VectorStores } from "./vector-stores.ts";

/** What the routes of files and vector stores share. */
export interface RouteParts {
  readonly files: UploadedFiles;
  readonly stores: VectorStores;
  readonly search: StoreSearch;
  readonly ingest: FileIngest;
  /** How files are cut that say nothing of it. */
  readonly chunkingDefault: NonNullable<Chunking>;
  readonly admit: Admit;
  nowSeconds(): number;
}
