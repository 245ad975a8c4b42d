import { expect, test } from "vitest";
import { EngineError } from "#base";
import { ReferenceDevice, type WeightSource } from "#devices";
import { loadDecoderWeights, loadEncoderWeights, type Model, type WeightSources } from "#models";
import { decodeFloats } from "#tensor";
import { openRecordedModel } from "../contracts/recorded-model.ts";
import { tensorSource } from "../devices/reference/sources.ts";

function load(model: Model, sources: WeightSources) {
  const device = new ReferenceDevice();
  return model.kind === "decoder"
    ? loadDecoderWeights(device, model, { sources, format: "f32" })
    : loadEncoderWeights(device, model, { sources, format: "f32" });
}

function errorOf(model: Model, sources: WeightSources): EngineError {
  try {
    load(model, sources);
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error("No error");
}

test("a missing tensor is named, with the shape that was wanted", () => {
  const { model, sources } = openRecordedModel("llama");
  const incomplete = new Map(sources);
  incomplete.delete("model.layers.1.mlp.down_proj.weight");
  const error = errorOf(model, incomplete);
  expect(error.code).toBe("CHECKPOINT_INVALID");
  expect(error.message).toContain("model.layers.1.mlp.down_proj.weight [96, 112]");
});

test("a tensor of another shape is named, with both shapes", () => {
  const { model, sources } = openRecordedModel("llama");
  const name = "model.layers.0.self_attn.k_proj.weight";
  const wrong = new Map(sources).set(name, tensorSource(name, [96, 32], new Float32Array(96 * 32)));
  const error = errorOf(model, wrong);
  expect(error.code).toBe("CHECKPOINT_INVALID");
  expect(error.message).toContain(`${name}: shape must be [32, 96]`);
  expect(error.message).toContain("current value is [96, 32]");
});

test("a bias that the config promises must be there", () => {
  const { model, sources } = openRecordedModel("qwen2");
  const incomplete = new Map(sources);
  incomplete.delete("model.layers.0.self_attn.q_proj.bias");
  expect(errorOf(model, incomplete).message).toContain("self_attn.q_proj.bias [96]");
});

test("what is not asked for is not read", () => {
  const { model, sources } = openRecordedModel("qwen2"); // tied
  const unread = (name: string): WeightSource => ({
    ...tensorSource(name, [1], [0]),
    bytes: () => {
      throw new Error(`${name} was read`);
    },
  });
  const extra = ["lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"];
  const more = new Map([...sources, ...extra.map((name) => [name, unread(name)] as const)]);
  expect(() => load(model, more)).not.toThrow();
});

test("pages of a tensor are let go after it was packed", () => {
  const { model, sources } = openRecordedModel("gpt2");
  const discarded = new Set<string>();
  const watched = new Map(
    Array.from(sources, ([name, source]) => [
      name,
      { ...source, bytes: () => source.bytes(), discard: () => void discarded.add(name) },
    ]),
  );
  load(model, watched);
  expect([...discarded].sort()).toEqual([...sources.keys()].sort());
});

test("parameters are counted once", () => {
  const { model, sources } = openRecordedModel("llama");
  const elements = [...sources.values()].map(({ shape }) => shape.reduce((a, b) => a * b, 1));
  expect(load(model, sources).parameters).toBe(elements.reduce((a, b) => a + b, 0));
});

test.for([
  ["gpt2", "transformer."],
  ["opt", "model."],
] as const)("checkpoints of the bare %s leave %s off", ([fixture, prefix]) => {
  const { model, sources } = openRecordedModel(fixture);
  const bare = new Map(
    Array.from(sources, ([name, source]) => [name.replace(prefix, ""), source] as const),
  );
  expect(() => load(model, bare)).not.toThrow();
});

test("BERT's first checkpoints have a prefix, and norms called gamma and beta", () => {
  const { model, sources } = openRecordedModel("bert-encoder");
  const renamed = Array.from(sources, ([name, source]) => {
    const older = name
      .replace("LayerNorm.weight", "LayerNorm.gamma")
      .replace("LayerNorm.bias", "LayerNorm.beta");
    return [`bert.${older}`, source] as const;
  });
  expect(() => load(model, new Map(renamed))).not.toThrow();
});

test.for([
  ["model.embed_tokens.weight", Number.NaN],
  ["model.layers.0.self_attn.q_proj.weight", Number.POSITIVE_INFINITY],
  ["model.layers.1.mlp.down_proj.weight", Number.NaN],
  ["model.norm.weight", Number.NEGATIVE_INFINITY],
  ["lm_head.weight", Number.NaN],
] as const)("a weight that is no number is refused by name: %s, %d", ([name, bad]) => {
  const { model, sources } = openRecordedModel("llama");
  const source = sources.get(name);
  if (source === undefined) throw new Error(`The recorded model has no ${name}`);
  const values = decodeFloats(source.bytes(), source.dtype).slice();
  values[7] = bad;
  const broken = new Map(sources).set(name, tensorSource(name, source.shape, values));
  const error = errorOf(model, broken);
  expect(error.code).toBe("CHECKPOINT_INVALID");
  expect(error.message).toContain(`Cannot load ${name}: all of its numbers must be finite`);
  expect(error.message).toContain(`element 7 is ${bad}`);
});
