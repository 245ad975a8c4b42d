import { z } from "zod";
import { invalidSetting, issueText } from "#base";
import {
  checkedRetention,
  PRIORITY_DEFAULT,
  type RetentionConfig,
  retentionProblem,
} from "./retention.ts";

const priority = z.number().default(PRIORITY_DEFAULT);
const durationMs = z.number().nullable().default(null);

/** As many as the pieces that a long conversation has. */
const RANGES_MAX = 1024;

const TokenRange = z.strictObject({
  start: z.number().describe("Position of the range's first token, from 0."),
  end: z
    .number()
    .nullable()
    .default(null)
    .describe("Position after the range's last token; null: to the end of the prompt."),
  priority: priority.describe("0 to 100; blocks of low priority are evicted first."),
  durationMs: durationMs.describe("How long the priority holds after the last use; null: forever."),
});

/** A request's retention, as callers write it: the schema of `RetentionConfig`. */
export const RetentionParams = z
  .strictObject({
    ranges: z
      .array(TokenRange)
      .max(RANGES_MAX)
      .default([])
      .describe(`Ranges of the prompt, at most ${RANGES_MAX}; must not overlap.`),
    decodePriority: priority.describe("Priority of blocks of generated tokens."),
    decodeDurationMs: durationMs.describe(
      "How long decodePriority holds after the last use; null: forever.",
    ),
  })
  .superRefine((config, context) => {
    const problem = retentionProblem(config);
    if (problem === null) return;
    context.addIssue({ code: "custom", path: [...problem.path], message: problem.wanted });
  })
  .transform(checkedRetention);
/** The input of `RetentionParams`. */
export type RetentionOptions = z.input<typeof RetentionParams>;

const Setting = z.strictObject({ retention: RetentionParams });

/** Checks and completes a caller's retention. Throws INVALID_ARGUMENT that names the field. */
export function parseRetention(options: unknown): RetentionConfig {
  const setting = { retention: options };
  const parsed = Setting.safeParse(setting, { error: issueText });
  if (parsed.success) return parsed.data.retention;
  throw invalidSetting(parsed.error, setting);
}
