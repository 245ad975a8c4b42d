import { describe, expect, test } from "vitest";
import { z } from "zod";
import { EngineError } from "#base";
import { parseRequest } from "../../../src/server/openai/parse-request.ts";
import { retentionConfig, retentionField } from "../../../src/server/openai/retention-request.ts";

const Body = z.strictObject({ kv_cache_retention_config: retentionField });

/** What a body with this field asks the engine for. */
const read = (field: unknown) =>
  retentionConfig(
    parseRequest(Body, { kv_cache_retention_config: field }).kv_cache_retention_config,
  );

function refusal(field: unknown): EngineError {
  try {
    read(field);
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error("was not refused");
}

describe("kv_cache_retention_config", () => {
  test("TensorRT-LLM's fields become the engine's, ranges in order", () => {
    const asked = read({
      token_range_retention_configs: [
        { token_start: 64, token_end: null, priority: 20, duration_ms: 1500.5 },
        { token_start: 0, token_end: 64, priority: 80 },
      ],
      decode_retention_priority: 50,
      decode_duration_ms: 30_000,
      transfer_mode: "DRAM",
      directory: "",
    });
    expect(asked).toEqual({
      ranges: [
        { start: 0, end: 64, priority: 80, durationMs: null },
        { start: 64, end: null, priority: 20, durationMs: 1500.5 },
      ],
      decodePriority: 50,
      decodeDurationMs: 30_000,
    });
  });

  test("what is left out has TensorRT-LLM's defaults, and null is left out", () => {
    const defaults = { ranges: [], decodePriority: 35, decodeDurationMs: null };
    expect(read({})).toEqual(defaults);
    expect(read({ decode_retention_priority: null, decode_duration_ms: null })).toEqual(defaults);
    expect(read({ token_range_retention_configs: [{ token_start: 3 }] })?.ranges).toEqual([
      { start: 3, end: null, priority: 35, durationMs: null },
    ]);
    expect(read(null)).toBeNull();
    expect(read(undefined)).toBeNull();
  });

  const range = (start: unknown, end: unknown, rest = {}) => ({
    token_range_retention_configs: [{ token_start: start, token_end: end, ...rest }],
  });

  test.for([
    [{ transfer_mode: "GDS" }, "transfer_mode", 'must be DRAM, current value is "GDS"'],
    [{ directory: "/x" }, "directory", "must be empty"],
    [{ decode_retention_priority: 101 }, "decode_retention_priority", "from 0 to 100"],
    [{ decode_retention_priority: "9" }, "decode_retention_priority", "must be a number"],
    [{ decode_duration_ms: 0 }, "decode_duration_ms", "must be more than 0, or null"],
    [{ decode_duration_ms: "30s" }, "decode_duration_ms", "must be a number"],
    [{ priority: 3 }, "priority", "is not a known field"],
    [range(-1, 4), "token_range_retention_configs[0].token_start", "at least 0"],
    [range(undefined, 4), "token_range_retention_configs[0].token_start", "must be a number"],
    [range(4, 4), "token_range_retention_configs[0].token_end", "above the range's start (4)"],
    [range(0, 4, { duration_ms: -1 }), "token_range_retention_configs[0].duration_ms", "more"],
    [range(0, 4, { priority: 3.5 }), "token_range_retention_configs[0].priority", "integer"],
    [[], "", "must be an object"],
  ] as const)("%j is refused by the field's own name", ([field, path, text]) => {
    const error = refusal(field);
    const param = ["kv_cache_retention_config", ...(path === "" ? [] : [path])].join(".");
    expect([error.code, error.param]).toEqual(["INVALID_ARGUMENT", param]);
    expect(error.message).toContain(`Cannot use ${param}: `);
    expect(error.message).toContain(text);
  });

  test("T 1: the range that does not fit beside another is named", () => {
    const ranges = [
      { token_start: 30, token_end: 128 },
      { token_start: 0, token_end: 64 },
    ];
    const error = refusal({ token_range_retention_configs: ranges });
    expect(error.param).toBe(
      "kv_cache_retention_config.token_range_retention_configs[0].token_start",
    );
    expect(error.message).toMatch(/must be at least 64.*current value is 30$/);
  });
});
