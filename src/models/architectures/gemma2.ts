import type { Architecture } from "../architecture.ts";
import { Gemma2Config, parseConfig } from "../config.ts";
import { activationOf, windowsOf } from "../config-parts.ts";
import type { LayerNames } from "../weight-names.ts";
import { llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";

/** Defaults of fields that the config leaves out; a cap of null is none. */
const defaults = {
  ...{ sliding_window: 4096, head_dim: 256, num_key_value_heads: 4, eos_token_id: 1 },
  ...{ attn_logit_softcapping: 50, final_logit_softcapping: 30 },
};

/** Gemma 2: four norms a layer, capped scores and logits, a window in every second layer. */
export const gemma2: Architecture = {
  modelTypes: ["gemma2"],
  describe(json) {
    const config = parseConfig(Gemma2Config, { ...defaults, ...json });
    const activation = config.hidden_activation ?? "gelu_pytorch_tanh";
    const spec = llamaLikeSpec(config, {
      windows: windowsOf(config, (layer) => layer % 2 === 0),
      tied: true,
      feedForward: () => ({
        kind: "dense",
        size: config.intermediate_size,
        activation: activationOf("hidden_activation", activation),
        gated: true,
      }),
    });
    const bias = config.attention_bias ?? false;
    const names = llamaLikeNames({ qkvBias: bias, outputBias: bias });
    return {
      kind: "decoder",
      spec: {
        ...spec,
        norm: { ...spec.norm, weightOffset: 1 },
        attentionScale: config.query_pre_attn_scalar ** -0.5,
        attentionSoftcap: config.attn_logit_softcapping ?? null,
        embeddingScale: Math.sqrt(config.hidden_size),
        finalSoftcap: config.final_logit_softcapping ?? null,
      },
      names: { ...names, layer: (index) => withFourNorms(names.layer(index), index) },
    };
  },
};

function withFourNorms(names: LayerNames, index: number): LayerNames {
  const layer = `model.layers.${index}`;
  return {
    ...names,
    postAttentionNorm: `${layer}.post_attention_layernorm`,
    feedForwardNorm: `${layer}.pre_feedforward_layernorm`,
    postFeedForwardNorm: `${layer}.post_feedforward_layernorm`,
  };
}
