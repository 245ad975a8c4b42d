/** The recorded models of test/fixtures/models, opened, with what they should compute. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openCheckpoint } from "#checkpoint";
import { describeModel, type JsonConfig, type Model, type WeightSources } from "#models";
import { decodeFloats } from "#tensor";

/** One prompt and what Hugging Face made of it. */
export interface RecordedCase {
  readonly prompt: readonly number[];
  /** 24 new tokens, the end token masked. Decoders only. */
  readonly greedy: readonly number[];
  /** Beam search of width 4, best first: 12 new tokens each, the end token masked. Decoders only. */
  readonly beams: readonly RecordedBeam[];
  /** Tensors of `expected.safetensors` by name without the case's number, flat. */
  tensor(name: string): Float32Array;
}

/** One of the sequences that a beam search returned. */
export interface RecordedBeam {
  readonly tokens: readonly number[];
  /** Sum of log-probabilities / length. */
  readonly score: number;
}

export interface RecordedModel {
  readonly config: JsonConfig;
  readonly model: Model;
  readonly sources: WeightSources;
  readonly cases: readonly RecordedCase[];
}

/** A case of `expected.json`. */
interface RecordedJson {
  readonly prompt: number[];
  readonly greedy?: number[];
  readonly beam4?: RecordedBeam[];
}

/** Folder names of the recorded decoders. */
export const decoderFixtures: readonly string[] = [
  "gemma2",
  "gpt2",
  "llama",
  "llama3-rope-scaled-tied",
  "mistral-sliding-window",
  "mixtral",
  "opt",
  "phi-1_5",
  "phi3",
  "qwen2",
  "qwen3",
  "qwen3-moe",
];

/** The path of a recorded model. */
export function fixturePath(fixture: string): string {
  return fileURLToPath(new URL(`../fixtures/models/${fixture}`, import.meta.url));
}

/** Opens a recorded model. Weights stay mapped until the process ends. */
export function openRecordedModel(fixture: string): RecordedModel {
  const path = fixturePath(fixture);
  const { config, tensors: sources } = openCheckpoint(path);
  const expected = openCheckpoint(`${path}/expected.safetensors`).tensors;
  const recorded: { cases: RecordedJson[] } = JSON.parse(
    readFileSync(`${path}/expected.json`, "utf8"),
  );
  const cases = recorded.cases.map(({ prompt, greedy = [], beam4: beams = [] }, i) => ({
    prompt,
    greedy,
    beams,
    tensor: (name: string): Float32Array => {
      const source = expected.get(`${name}.${i}`);
      if (source === undefined) throw new Error(`${fixture} has no recorded ${name}.${i}`);
      return decodeFloats(source.bytes(), source.dtype).slice();
    },
  }));
  return { config, model: describeModel(config), sources, cases };
}

/** The largest difference between two rows of numbers. */
export function worstDifference(actual: Float32Array, expected: Float32Array): number {
  if (actual.length !== expected.length) return Number.POSITIVE_INFINITY;
  return actual.reduce((worst, value, i) => {
    const difference = Math.abs(value - (expected[i] ?? Number.NaN));
    return Math.max(difference, worst); // NaN is worse than anything
  }, 0);
}
