/**
 * Far out in long contexts, every kind of rope gives what transformers gives: angles up to position
 * 131,071, and logits behind 4,096 tokens, under `npm run test:full` behind 32,768 and 131,072.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { LLM } from "#engine";
import { describeModel, type JsonConfig, type RopeSpec, ropeTable } from "#models";
import { worstDifference } from "../contracts/recorded-model.ts";
import { sized } from "../support/full.ts";

interface Recorded {
  readonly config: JsonConfig;
  /** By the length of the prompt: of its last two positions, [2, V]. */
  readonly logits: Readonly<Record<string, readonly number[]>>;
  /** By the length of the prompt and the position: cosines, then sines. */
  readonly angles: Readonly<Record<string, Readonly<Record<string, readonly number[]>>>>;
}

const folder = "test/fixtures/long-context";
const recorded: Readonly<Record<string, Recorded>> = JSON.parse(
  readFileSync(join(folder, "expected.json"), "utf8"),
);
const kinds = Object.keys(recorded);
const VOCABULARY = 64;
/** Cosines and sines are rounded to f32 once here, and in transformers. */
const ANGLE_ERROR_MAX = 2e-7;
/** Sums over 10^5 keys are in another order; logits are about 10. */
const LOGIT_ERROR_MAX = 2e-3;
const MINUTES = 60_000;

/** The tokens of training/recordings/long_context.py. */
function prompt(length: number): number[] {
  let state = 12_345n;
  return Array.from({ length }, () => {
    state = (state * 1_103_515_245n + 12_345n) % 2n ** 31n;
    return Number(state >> 16n) % VOCABULARY;
  });
}

function ropeOf(config: JsonConfig): RopeSpec {
  const model = describeModel(config);
  if (model.kind !== "decoder" || model.spec.positions.kind !== "rope") throw new Error("No rope");
  return model.spec.positions;
}

function folderOf(config: JsonConfig): string {
  const copy = mkdtempSync(join(tmpdir(), "perigee-long-"));
  onTestFinished(() => rmSync(copy, { recursive: true }));
  writeFileSync(join(copy, "config.json"), JSON.stringify(config));
  copyFileSync(join(folder, "model.safetensors"), join(copy, "model.safetensors"));
  return copy;
}

test.each(kinds)("angles of %s are those of transformers up to position 131,071", (kind) => {
  const { config, angles } = recorded[kind] ?? { config: {}, angles: {} };
  const rope = ropeOf(config);
  for (const [length, rows] of Object.entries(angles)) {
    const positions = Number(length);
    const table = ropeTable(rope, { positions, modelTokens: 131_072, servedTokens: positions });
    for (const [position, row] of Object.entries(rows)) {
      const start = Number(position) * rope.rotaryDim;
      const actual = table.subarray(start, start + rope.rotaryDim);
      const factor = Math.max(1, ...row.map(Math.abs));
      const error = worstDifference(actual, Float32Array.from(row));
      expect(error).toBeLessThanOrEqual(ANGLE_ERROR_MAX * factor);
    }
  }
});

describe.each(sized([4096], [4096, 32_768, 131_072]))("behind %i tokens", (length) => {
  test.each(kinds)(
    "logits with %s rope are those of transformers",
    async (kind) => {
      const { config = {}, logits = {} } = recorded[kind] ?? {};
      // The model ends where the longest prompt does, and a sequence has room for one token more.
      await using llm = await LLM.load(folderOf(config), {
        ...{ device: "cpu", dtype: "float32", engineThread: false },
        scheduler: { contextTokensMax: length },
        onWarning: () => {},
      });
      const promptTokenIds = prompt(length - 1);
      const { logits: rows } = await llm.promptLogits({ promptTokenIds });
      const last = rows.subarray(rows.length - VOCABULARY);
      const expected = Float32Array.from((logits[length] ?? []).slice(0, VOCABULARY));
      expect(worstDifference(last, expected)).toBeLessThanOrEqual(LOGIT_ERROR_MAX);
    },
    20 * MINUTES,
  );
});
