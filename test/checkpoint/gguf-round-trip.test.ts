import { afterEach, describe, expect, test } from "vitest";
import { type Checkpoint, openCheckpoint } from "#checkpoint";
import { describeModel } from "#models";
import { ggufCheckpoint } from "../../src/checkpoint/gguf-checkpoint.ts";
import { asGguf, floats } from "./gguf-converter.ts";
import { writeGguf } from "./gguf-writer.ts";
import { MemoryFile } from "./memory-file.ts";

const FIXTURES = [
  ...["llama", "llama3-rope-scaled-tied", "mistral-sliding-window", "mixtral", "qwen2", "qwen3"],
  ...["qwen3-moe", "gemma2", "phi-1_5", "phi3", "gpt2"],
];

/** Fields that a GGUF does not keep, or keeps under the other dialect's name. */
const LOST_FIELDS = new Set(["rope_parameters", "head_dim", "n_inner"]);

const opened: Checkpoint[] = [];
afterEach(() => {
  for (const checkpoint of opened.splice(0)) checkpoint.close();
});

function roundTrip(fixture: string): { readonly original: Checkpoint; readonly gguf: Checkpoint } {
  const original = openCheckpoint(`test/fixtures/models/${fixture}`);
  opened.push(original);
  const gguf = ggufCheckpoint(new MemoryFile(writeGguf(asGguf(original)), `${fixture}.gguf`));
  return { original, gguf };
}

describe.each(FIXTURES)("%s as GGUF", (fixture) => {
  test("has the weights of the Hugging Face directory, name by name", () => {
    const { original, gguf } = roundTrip(fixture);
    expect([...gguf.tensors.keys()].sort()).toEqual([...original.tensors.keys()].sort());
    // Gemma's norms go through an addition and a subtraction of 1.
    const tolerance = fixture === "gemma2" ? 1e-7 : 0;
    for (const weight of original.tensors.values()) {
      const other = gguf.tensors.get(weight.name);
      expect(other?.shape, weight.name).toEqual(weight.shape);
      expect(largestDifference(other, weight), weight.name).toBeLessThanOrEqual(tolerance);
    }
  });

  test("describes the same model", () => {
    const { original, gguf } = roundTrip(fixture);
    // As JSON, because a description also holds functions, which are never equal.
    const described = (checkpoint: Checkpoint) => JSON.stringify(describeModel(checkpoint.config));
    expect(described(gguf)).toBe(described(original));
  });

  test("has the configuration of the Hugging Face directory, as far as GGUF keeps it", () => {
    const { original, gguf } = roundTrip(fixture);
    for (const [field, value] of Object.entries(gguf.config)) {
      if (LOST_FIELDS.has(field) || !(field in original.config)) continue;
      expect(value, field).toEqual(original.config[field]);
    }
    const { partial_rotary_factor: _partial, ...rope } = Object(original.config.rope_parameters);
    if (fixture !== "gpt2") expect(gguf.config.rope_parameters).toMatchObject(rope);
  });
});

function largestDifference(
  a: Parameters<typeof floats>[0] | undefined,
  b: Parameters<typeof floats>[0],
): number {
  if (a === undefined) return Number.NaN;
  const [first, second] = [floats(a), floats(b)];
  let most = first.length === second.length ? 0 : Number.NaN;
  first.forEach((value, at) => {
    const difference = Math.abs(value - (second[at] ?? Number.NaN));
    if (!(difference <= most)) most = difference;
  });
  return most;
}
