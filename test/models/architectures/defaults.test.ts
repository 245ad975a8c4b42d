/** What published configs leave out, and what families make of it. */
import { expect, test } from "vitest";
import { type DecoderSpec, describeModel, type JsonConfig } from "#models";

const llama = {
  model_type: "llama",
  hidden_size: 64,
  intermediate_size: 128,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  vocab_size: 100,
  max_position_embeddings: 512,
};

function specOf(config: JsonConfig): DecoderSpec {
  const model = describeModel(config);
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  return model.spec;
}

const windowsOf = (config: JsonConfig) => specOf(config).layers.map(({ window }) => window);

test("Llama without kv heads, head size, ties or ends of text", () => {
  const spec = specOf(llama);
  expect(spec).toMatchObject({ kvHeads: 4, headDim: 16, tied: false, eosTokenIds: [2] });
  expect(specOf({ ...llama, eos_token_id: 5 }).eosTokenIds).toEqual([5]);
  expect(specOf({ ...llama, eos_token_id: null }).eosTokenIds).toEqual([]);
  expect(specOf({ ...llama, eos_token_id: [2, 3] }).eosTokenIds).toEqual([2, 3]);
});

test("Mistral's window is 4096 where the field is missing, and none where it is null", () => {
  const mistral = { ...llama, model_type: "mistral", num_key_value_heads: 4 };
  expect(windowsOf(mistral)).toEqual([4096, 4096, 4096, 4096]);
  expect(windowsOf({ ...mistral, sliding_window: null })).toEqual([null, null, null, null]);
});

test("Qwen's windows need switching on and begin at max_window_layers", () => {
  const qwen = {
    ...{ ...llama, model_type: "qwen2", num_key_value_heads: 4 },
    ...{ sliding_window: 64, max_window_layers: 2 },
  };
  expect(windowsOf(qwen)).toEqual([null, null, null, null]);
  expect(windowsOf({ ...qwen, use_sliding_window: true })).toEqual([null, null, 64, 64]);
});

test("Gemma 2 slides in every second layer, ties, scales embeddings, and has heads of 256", () => {
  const spec = specOf({ ...llama, model_type: "gemma2" });
  expect(spec.layers.map(({ window }) => window)).toEqual([4096, null, 4096, null]);
  expect(spec).toMatchObject({ tied: true, embeddingScale: 8, headDim: 256 });
  expect(spec.attentionScale).toBe(256 ** -0.5);
});

test("Qwen 3 has heads of 128 and norms on them", () => {
  const qwen3 = specOf({ ...llama, model_type: "qwen3", num_key_value_heads: 4 });
  expect(qwen3).toMatchObject({ headDim: 128, queryKeyNorm: true });
});

test("Qwen 3 MoE has dense layers where the config says so", () => {
  const config = {
    ...{ ...llama, model_type: "qwen3_moe", num_experts: 8, num_experts_per_tok: 2 },
    ...{ moe_intermediate_size: 32, decoder_sparse_step: 2, mlp_only_layers: [3] },
  };
  const kinds = specOf(config).layers.map(({ feedForward }) => feedForward.kind);
  expect(kinds).toEqual(["dense", "experts", "dense", "dense"]);
});

test("Phi turns half of each head, has layer norms and no gate", () => {
  const spec = specOf({ ...llama, model_type: "phi" });
  expect(spec.positions).toMatchObject({ rotaryDim: 8 });
  expect(spec.norm).toEqual({ kind: "layer", epsilon: 1e-5, weightOffset: 0 });
  expect(spec.layers[0]?.feedForward).toMatchObject({ gated: false, activation: "gelu-tanh" });
});

test("Phi-4-mini turns three quarters of a head and stretches by LongRoPE", () => {
  const spec = specOf({
    ...{ ...llama, model_type: "phi3", partial_rotary_factor: 0.75, max_position_embeddings: 4096 },
    original_max_position_embeddings: 1024,
    rope_scaling: {
      type: "longrope",
      short_factor: Array(6).fill(1),
      long_factor: Array(6).fill(4),
    },
  });
  expect(spec.positions).toMatchObject({
    rotaryDim: 12,
    scaling: { kind: "longrope", originalContextTokens: 1024, attentionFactor: Math.sqrt(1.2) },
  });
});

test("YaRN makes the context longer by its factor", () => {
  const rope_scaling = { type: "yarn", factor: 4, original_max_position_embeddings: 512 };
  const spec = specOf({ ...llama, rope_scaling });
  expect(spec.contextTokensMax).toBe(2048);
  expect(spec.positions).toMatchObject({
    scaling: { kind: "yarn", betaFast: 32, betaSlow: 1, attentionFactor: 0.1 * Math.log(4) + 1 },
  });
});

test("OPT keeps two rows of its positions for padding", () => {
  const opt = specOf({ ...llama, model_type: "opt", ffn_dim: 128 });
  expect(opt.positions).toEqual({ kind: "learned", rows: 514, offset: 2 });
  expect(opt.contextTokensMax).toBe(512);
});

test("GPT-2's feed-forward is four times as wide where the config does not say", () => {
  const gpt2 = specOf({
    ...{ model_type: "gpt2", n_embd: 64, n_layer: 1, n_head: 4, n_positions: 32, vocab_size: 10 },
  });
  expect(gpt2.layers[0]?.feedForward.size).toBe(256);
});
