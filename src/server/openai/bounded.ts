/**
 * Lists and records whose items are counted before they are checked: a schema reports every invalid
 * item of a list, and a body can hold millions.
 */
import { z } from "zod";
import { isPlainObject } from "#base";

/** Maximum items of each list and record of a request; SECURITY.md has them in a table. */
export const LIST_LIMITS = {
  /** OpenAI's limit; also for texts to embed. */
  prompts: 2048,
  /** Texts to score against a query. */
  documents: 2048,
  messages: 4096,
  /** Parts of one message. */
  contentParts: 4096,
  /** Calls of one message. */
  toolCalls: 128,
  tools: 128,
  stop: 64,
  stop_token_ids: 256,
  bad_words: 1024,
  logit_bias: 16_384,
  allowed_token_ids: 262_144,
  /** Of `guided_choice` and `structured_outputs`. */
  choice: 16_384,
  modalities: 8,
  token_range_retention_configs: 1024,
  /** Choices that another worker began. */
  continue: 16_384,
  /** Of one `file_search` tool. */
  vector_store_ids: 16,
  /** OpenAI's limit, of responses. */
  metadata: 16,
  /** Of responses. */
  include: 16,
} as const;

/** An object whose fields the engine or a template reads: its keys are not checked here. */
export const anyObject = z.unknown().check(({ value, issues }) => {
  if (!isPlainObject(value))
    issues.push({ code: "invalid_type", expected: "record", input: value });
}) as unknown as z.ZodType<Readonly<Record<string, unknown>>>;

interface ItemCounts {
  readonly min?: number;
  readonly max: number;
  /** Replaces the default message. */
  readonly wanted?: string;
}

/** A list; its items are checked only if their number is within the limits. */
export function boundedList<Item extends z.ZodType>(item: Item, counts: ItemCounts) {
  return z.preprocess((value, context) => {
    if (!Array.isArray(value)) return value;
    return countProblem(value.length, counts, "items", context) ? z.NEVER : value;
  }, z.array(item));
}

/** An object with keys chosen by clients; they are checked only if there are not too many. */
export function boundedRecord<Key extends z.ZodString, Value extends z.ZodType>(
  key: Key,
  value: Value,
  counts: ItemCounts,
) {
  return z.preprocess(
    (given, context) => {
      if (typeof given !== "object" || given === null) return given;
      return countProblem(Object.keys(given).length, counts, "fields", context) ? z.NEVER : given;
    },
    z.record(key, value),
  );
}

function countProblem(
  count: number,
  { min = 0, max, wanted }: ItemCounts,
  noun: string,
  context: z.RefinementCtx,
): boolean {
  if (count >= min && count <= max) return false;
  const bounds = count > max ? `must have at most ${max} ${noun}` : "must not be empty";
  context.addIssue({ code: "custom", message: wanted ?? bounds });
  return true;
}
