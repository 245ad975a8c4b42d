import type { Architecture } from "../architecture.ts";
import { Gpt2Config, parseConfig, unsupportedConfig } from "../config.ts";
import { activationOf, endTokensOf, headShapeOf } from "../config-parts.ts";
import type { DecoderSpec } from "../decoder-spec.ts";
import type { DecoderNames, LayerNames, LinearNames } from "../weight-names.ts";
import { linearNames } from "./llama-like.ts";

/** GPT-2 and similar models: learned positions, matrices stored as [inputs, outputs]. */
export const gpt2: Architecture = {
  modelTypes: ["gpt2"],
  describe(json) {
    const config = parseConfig(Gpt2Config, { eos_token_id: 50_256, ...json });
    if (config.scale_attn_by_inverse_layer_idx) {
      throw unsupportedConfig("scale_attn_by_inverse_layer_idx", "false", true);
    }
    if (config.add_cross_attention) throw unsupportedConfig("add_cross_attention", "false", true);
    return { kind: "decoder", spec: specOf(config), names };
  },
};

function specOf(config: Gpt2Config): DecoderSpec {
  const shape = headShapeOf({ hidden_size: config.n_embd, num_attention_heads: config.n_head });
  const layer = {
    window: null,
    feedForward: {
      kind: "dense",
      size: config.n_inner ?? 4 * config.n_embd,
      activation: activationOf("activation_function", config.activation_function),
      gated: false,
    },
  } as const;
  return {
    architecture: "gpt2",
    hiddenSize: config.n_embd,
    ...shape,
    vocabularySize: config.vocab_size,
    contextTokensMax: config.n_positions,
    layers: Array.from({ length: config.n_layer }, () => layer),
    norm: { kind: "layer", epsilon: config.layer_norm_epsilon, weightOffset: 0 },
    positions: { kind: "learned", rows: config.n_positions, offset: 0 },
    attentionScale: config.scale_attn_weights ? shape.headDim ** -0.5 : 1,
    attentionSoftcap: null,
    queryKeyNorm: false,
    embeddingScale: 1,
    finalSoftcap: null,
    tied: config.tie_word_embeddings,
    eosTokenIds: endTokensOf(config),
  };
}

const names: DecoderNames = {
  optionalPrefix: "transformer.",
  tokens: "transformer.wte",
  positions: "transformer.wpe",
  layer: layerNames,
  finalNorm: "transformer.ln_f",
  head: linearNames(["lm_head"]),
};

function layerNames(index: number): LayerNames {
  const layer = `transformer.h.${index}`;
  return {
    attentionNorm: `${layer}.ln_1`,
    qkv: convolution(`${layer}.attn.c_attn`),
    attentionOutput: convolution(`${layer}.attn.c_proj`),
    feedForwardNorm: `${layer}.ln_2`,
    feedForward: {
      kind: "dense",
      input: convolution(`${layer}.mlp.c_fc`),
      output: convolution(`${layer}.mlp.c_proj`),
    },
  };
}

/** GPT-2 stores its linear layers as convolutions of width 1. */
function convolution(module: string): LinearNames {
  return { modules: [module], bias: true, transposed: true };
}
