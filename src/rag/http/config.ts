import { z } from "zod";
import { EMBEDDER_DEFAULT } from "#rag/service";

const MIB = 2 ** 20;
const GIB = 2 ** 30;

/** OpenAI's files and vector stores, served: where they are kept, and how much of them. */
export const RagServing = z
  .strictObject({
    store: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "Folder or address of the store of vectors that OpenAI's vector stores are kept in; " +
          "null: files, vector stores and file_search are not served.",
      ),
    embedder: z
      .string()
      .min(1)
      .default(EMBEDDER_DEFAULT)
      .describe(
        "Model that makes vectors: a bundled one's name, a folder, a .gguf file, a Hugging Face " +
          "id, or the address of a server with OpenAI's API.",
      ),
    embedderModel: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe("Name of the model where the embedder is an address."),
    embedderDevice: z
      .enum(["auto", "cpu", "cuda", "reference"])
      .default("cpu")
      .describe("Where vectors are made; auto: cuda where a GPU can be used, else cpu."),
    reranker: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe("Cross-encoder that orders what was found; null: none."),
    state: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "Folder for uploaded files and the records of vector stores; null: inside of the store's " +
          "folder. A store at an address needs one.",
      ),
    fileBytesMax: z
      .int()
      .min(1)
      .max(512 * MIB)
      .default(64 * MIB)
      .describe("Most bytes of an uploaded file."),
    totalBytesMax: z
      .int()
      .min(1)
      .default(8 * GIB)
      .describe("Most bytes of all uploaded files together."),
    filesMax: z.int().min(1).max(100_000).default(10_000).describe("Most uploaded files."),
    storesMax: z.int().min(1).max(10_000).default(1000).describe("Most vector stores."),
    ingestJobs: z
      .int()
      .min(1)
      .max(16)
      .default(2)
      .describe("Vector stores whose files are read and embedded at the same time."),
  })
  .readonly();
/** Parsed `RagServing`. */
export type RagServing = z.output<typeof RagServing>;

/** Limits that have no setting. */
export const LIMITS = {
  /** OpenAI's. */
  filesOfStore: 10_000,
  /** Files in all vector stores together. */
  members: 50_000,
  /** OpenAI's. */
  filesOfBatch: 2000,
  /** Batches of one store that are remembered; older ones are forgotten when they are done. */
  batchesOfStore: 1000,
  /** Of all records, on the disk and in memory. */
  recordBytes: 128 * MIB,
  /** Uploads at a time. */
  uploads: 32,
} as const;
