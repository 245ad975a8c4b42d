import { z } from "zod";
import { fieldNames, invalidSetting, issueText } from "#base";

/** What is searched for, and where. */
export const SearchSettings = z.strictObject({
  mode: z
    .enum(["hybrid", "vector", "text"])
    .default("hybrid")
    .describe("Search by meaning and by words (hybrid), by meaning alone, or by words alone."),
  limit: z.int().min(1).max(1000).default(10).describe("Most results."),
  candidates: z
    .int()
    .min(1)
    .max(1000)
    .default(30)
    .describe("Chunks that the reranker reads, at least limit; without one the search ends there."),
});
/** Parsed `SearchSettings`. */
export type SearchSettings = z.output<typeof SearchSettings>;
/** `SearchSettings` as callers write them. */
export type SearchFields = z.input<typeof SearchSettings>;

/** Checks and completes a caller's settings. Throws INVALID_ARGUMENT that names the field. */
export function parseSearchSettings(fields: unknown): SearchSettings {
  const result = SearchSettings.safeParse(fields, { error: issueText });
  if (result.success) return result.data;
  throw invalidSetting(result.error, fields, fieldNames(SearchSettings));
}
