import { z } from "zod";
import { fieldNames, invalidSetting, issueText } from "#base";

/** How questions are answered. */
export const AskSettings = z.strictObject({
  sourcesMax: z
    .int()
    .min(1)
    .max(64)
    .default(8)
    .describe("Most passages that the model is given; fewer where its context has no room."),
  maxTokens: z.int().positive().default(256).describe("Most tokens of an answer."),
  temperature: z
    .number()
    .min(0)
    .max(2)
    .default(0)
    .describe("Randomness of the answer; 0: the likeliest token each time."),
  seed: z.int().nullable().default(null).describe("Seed of sampled answers; null: a fresh one."),
  scoreMin: z
    .number()
    .min(-1)
    .max(1)
    .default(0.3)
    .describe(
      "Least score of a passage: the reranker's, else the cosine. A passage below it stays where " +
        "it has half of the question's words; without any passage the question is refused.",
    ),
  order: z
    .enum(["cache", "document", "similarity"])
    .default("cache")
    .describe(
      "Order of the passages in the prompt: so that most of it is in the cache (cache), as in " +
        "their documents, or the best first (similarity).",
    ),
  style: z
    .enum(["auto", "written", "quoted"])
    .default("auto")
    .describe(
      "What is told: what the model writes (written); that only where the words of the sources " +
        "confirm it, else the sentences that fit best, as quotations (quoted); auto: quoted for " +
        "a model of fewer than 200 million parameters.",
    ),
  retention: z
    .boolean()
    .default(true)
    .describe(
      "Keep blocks of the preamble and of passages that are often used longer in the cache than " +
        "those of questions and answers.",
    ),
  titles: z.boolean().default(true).describe("Put the heading above a passage into the prompt."),
  preamble: z
    .string()
    .max(100_000)
    .nullable()
    .default(null)
    .describe(
      "System message. null: rules for answering from passages; none for a model of fewer than " +
        "200 million parameters, which does better without.",
    ),
  cacheSalt: z
    .string()
    .min(1)
    .max(256)
    .nullable()
    .default(null)
    .describe("Questions with another salt never share cached blocks: one for each tenant."),
});
/** Parsed `AskSettings`. */
export type AskSettings = z.output<typeof AskSettings>;
/** `AskSettings` as callers write them. */
export type AskFields = z.input<typeof AskSettings>;

/** Checks and completes a caller's settings. Throws INVALID_ARGUMENT that names the field. */
export function parseAskSettings(fields: unknown): AskSettings {
  const result = AskSettings.safeParse(fields, { error: issueText });
  if (result.success) return result.data;
  throw invalidSetting(result.error, fields, fieldNames(AskSettings));
}
