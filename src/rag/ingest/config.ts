/** Settings of ingestion. */
import { z } from "zod";
import { describeIssue, EngineError, issueText } from "#base";

const MIB = 2 ** 20;

/** How documents are read, cut and stored; each field has a default. */
export const IngestSettings = z
  .strictObject({
    chunkTokens: z
      .int()
      .min(16)
      .max(2 ** 17)
      .default(384)
      .describe("Most tokens of a chunk with its headings; at most the embedder's own limit."),
    overlapTokens: z
      .int()
      .min(0)
      .default(48)
      .describe("Most tokens that a chunk repeats of the one before it."),
    fileBytesMax: z
      .int()
      .min(1)
      .max(512 * MIB)
      .default(64 * MIB)
      .describe("Longer files are not read."),
    fileSeconds: z
      .number()
      .positive()
      .max(24 * 3600)
      .default(60)
      .describe("Most time of work on one file; then its reading is ended."),
    readerMemoryBytes: z
      .int()
      .min(128 * MIB)
      .default(1024 * MIB)
      .describe("Most memory of a process that reads; then it is ended, and its file has failed."),
    readers: z.int().min(1).max(64).default(2).describe("Processes that read files."),
    embedBatch: z.int().min(1).max(4096).default(64).describe("Chunks that are embedded at once."),
    storeBatch: z.int().min(1).max(4096).default(256).describe("Chunks that are stored at once."),
    attempts: z
      .int()
      .min(1)
      .max(100)
      .default(6)
      .describe("Calls of a store or an embedder that fails, before its error ends ingestion."),
    backoffMs: z
      .number()
      .min(0)
      .max(60_000)
      .default(200)
      .describe("Wait before the second call; doubled for each further one."),
  })
  .refine((settings) => settings.overlapTokens * 2 <= settings.chunkTokens, {
    path: ["overlapTokens"],
    error: "must be at most half of chunkTokens",
  })
  .readonly();
export type IngestSettings = z.output<typeof IngestSettings>;

/** The settings with defaults. Throws INVALID_ARGUMENT, with the field as `param`. */
export function parseIngestSettings(settings: unknown): IngestSettings {
  const parsed = IngestSettings.safeParse(settings, { error: issueText });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const { param, text } = describeIssue(issue ?? {}, settings);
  throw new EngineError("INVALID_ARGUMENT", `Cannot ingest: ${param} ${text}`, { param });
}
