/** Draft models that are refused, and why. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LLM } from "#engine";
import { describeDraftModel } from "#models";
import { scratchFolder } from "../../checkpoint/scratch-folder.ts";
import { fixturePath } from "../../contracts/recorded-model.ts";
import { writeRandomDraftModel } from "../../support/random-drafter.ts";

const llama = {
  ...{ model_type: "llama", hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2 },
  ...{ num_attention_heads: 4, num_key_value_heads: 1, vocab_size: 320 },
  max_position_embeddings: 64,
};

test("a decoder is described with what its keys and values take", () => {
  expect(describeDraftModel({ ...llama, base_fingerprint: "ab" }, 1000)).toMatchObject({
    madeFor: { hiddenSize: null, vocabularySize: 320, base: "ab" },
    kv: { layers: 2, kvHeads: 1, headDim: 8 },
  });
});

test.for([
  [{ model_type: "bert" }, /model_type must be that of a decoder/],
  [{ model_type: "mamba" }, /model_type must be one of/],
  [{ base_fingerprint: 7 }, /base_fingerprint: expected string, current value is 7/],
  [{ hidden_size: -1 }, /hidden_size/],
] as const)("refused: %j", ([fields, message]) => {
  expect(() => describeDraftModel({ ...llama, ...fields }, 64)).toThrow(message);
});

test("a table of positions that ends before the longest sequence is refused, rope is not", () => {
  const gpt2 = {
    ...{ model_type: "gpt2", n_embd: 32, n_layer: 1, n_head: 2, n_positions: 64 },
    vocab_size: 320,
  };
  expect(() => describeDraftModel(gpt2, 65)).toThrow(
    /max_position_embeddings must be at least 65.*lower contextTokensMax.*current value is 64/,
  );
  expect(describeDraftModel(gpt2, 64).kv.layers).toBe(1);
  expect(describeDraftModel(llama, 65).kv.layers).toBe(2);
});

const base = fixturePath("llama");

function load(model: string | null, more: object = {}): Promise<LLM> {
  return LLM.load(base, {
    ...{ device: "cpu", dtype: "float32", threads: 1, engineThread: false },
    speculative: { kind: "draft-model", ...(model !== null && { model }), ...more },
  });
}

test("a model of another vocabulary, or made for another base, is refused at load", async () => {
  const folder = scratchFolder();
  writeRandomDraftModel(folder, { vocabulary: 319 });
  await expect(load(folder)).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    param: "speculative.model",
    message: expect.stringMatching(/vocab_size must be 320, the model's, current value is 319/),
  });
  const other = scratchFolder();
  writeRandomDraftModel(other, { vocabulary: 320, config: { base_fingerprint: "00" } });
  await expect(load(other)).rejects.toMatchObject({
    message: expect.stringMatching(/base_fingerprint must be/),
  });
});

test("files that are missing or broken are refused at load", async () => {
  await expect(load(null)).rejects.toMatchObject({
    code: "MODEL_NOT_FOUND",
    message: expect.stringMatching(/drafters.draft-model is not there/),
  });
  const folder = scratchFolder();
  writeRandomDraftModel(folder, { vocabulary: 320 });
  const config = { ...llama, head_dim: 16, num_key_value_heads: 2 };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  await expect(load(folder)).rejects.toMatchObject({
    code: "CHECKPOINT_INVALID",
    message: expect.stringMatching(/k_proj.weight: shape must be \[32, 32\]/),
  });
});

test("attention sinks beyond what the draft model was made for are refused at load", async () => {
  const folder = scratchFolder();
  writeRandomDraftModel(folder, { vocabulary: 320, config: { max_position_embeddings: 16 } });
  const options = { kvCache: { attentionWindow: 24, attentionSinks: 4 } };
  const loading = LLM.load(base, {
    ...{ device: "cpu", dtype: "float32", threads: 1, engineThread: false, ...options },
    speculative: { kind: "draft-model", model: folder },
  });
  await expect(loading).rejects.toMatchObject({ param: "attentionWindow" });
});
