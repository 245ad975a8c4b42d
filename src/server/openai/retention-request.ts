/** Converts TensorRT-LLM's `kv_cache_retention_config` to the engine's `RetentionConfig`. */
import { z } from "zod";
import { issueText } from "#base";
import { type RetentionConfig, RetentionParams } from "#engine";
import { boundedList, LIST_LIMITS } from "./bounded.ts";
import { invalidField, pathText } from "./parse-request.ts";

const number = z.number().nullish();

const RetentionFields = z.strictObject({
  token_range_retention_configs: boundedList(
    z.strictObject({
      token_start: z.number(),
      token_end: number,
      priority: number,
      duration_ms: number,
    }),
    { max: LIST_LIMITS.token_range_retention_configs },
  ).nullish(),
  decode_retention_priority: number,
  decode_duration_ms: number,
  // Blocks always move through host memory, also on their way to disk.
  transfer_mode: z.literal("DRAM").nullish(),
  directory: z
    .literal("", "must be empty: the server's options decide where blocks are stored")
    .nullish(),
});
type RetentionFields = z.output<typeof RetentionFields>;

/** The request field, for the schemas of the endpoints that generate. Types are checked here. */
export const retentionField = RetentionFields.nullish();

/**
 * The request's retention; null: not given. Bounds and ranges are checked by the engine's schema;
 * errors use the request's field names. Throws INVALID_ARGUMENT.
 */
export function retentionConfig(request: z.output<typeof retentionField>): RetentionConfig | null {
  if (request === null || request === undefined) return null;
  const options = namedOptions(request);
  const parsed = RetentionParams.safeParse(options, { error: issueText });
  if (parsed.success) return parsed.data;
  throw invalidField(parsed.error, options, (path) =>
    pathText(["kv_cache_retention_config", ...path.map(requestName)]),
  );
}

function namedOptions(request: RetentionFields): z.input<typeof RetentionParams> {
  return {
    ranges: (request.token_range_retention_configs ?? []).map((range) => ({
      start: range.token_start,
      end: range.token_end ?? null,
      priority: range.priority ?? undefined,
      durationMs: range.duration_ms ?? null,
    })),
    decodePriority: request.decode_retention_priority ?? undefined,
    decodeDurationMs: request.decode_duration_ms ?? null,
  };
}

const REQUEST_NAMES: ReadonlyMap<PropertyKey, string> = new Map([
  ["ranges", "token_range_retention_configs"],
  ["start", "token_start"],
  ["end", "token_end"],
  ["durationMs", "duration_ms"],
  ["decodePriority", "decode_retention_priority"],
  ["decodeDurationMs", "decode_duration_ms"],
]);

function requestName(key: PropertyKey): PropertyKey {
  return REQUEST_NAMES.get(key) ?? key;
}
