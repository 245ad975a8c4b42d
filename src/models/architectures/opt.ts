import type { Architecture } from "../architecture.ts";
import { OptConfig, parseConfig, unsupportedConfig } from "../config.ts";
import { activationOf, endTokensOf, headShapeOf } from "../config-parts.ts";
import type { DecoderSpec } from "../decoder-spec.ts";
import type { DecoderNames, LayerNames } from "../weight-names.ts";
import { linearNames } from "./llama-like.ts";

/** The table's first two rows are padding. */
const positionOffset = 2;

/** OPT, all sizes but 350m (which normalises after its branches, and projects its embeddings). */
export const opt: Architecture = {
  modelTypes: ["opt"],
  describe(json) {
    const config = parseConfig(OptConfig, { eos_token_id: 2, ...json });
    refuseVariants(config);
    return { kind: "decoder", spec: specOf(config), names: namesOf(config) };
  },
};

function refuseVariants(config: OptConfig): void {
  if (!config.do_layer_norm_before) throw unsupportedConfig("do_layer_norm_before", "true", false);
  if (!config.layer_norm_elementwise_affine) {
    throw unsupportedConfig("layer_norm_elementwise_affine", "true", false);
  }
  const projected = config.word_embed_proj_dim ?? config.hidden_size;
  if (projected !== config.hidden_size) {
    throw unsupportedConfig("word_embed_proj_dim", `${config.hidden_size}`, projected);
  }
}

function specOf(config: OptConfig): DecoderSpec {
  const shape = headShapeOf(config);
  const layer = {
    window: null,
    feedForward: {
      kind: "dense",
      size: config.ffn_dim,
      activation: activationOf("activation_function", config.activation_function),
      gated: false,
    },
  } as const;
  return {
    architecture: "opt",
    hiddenSize: config.hidden_size,
    ...shape,
    vocabularySize: config.vocab_size,
    contextTokensMax: config.max_position_embeddings,
    layers: Array.from({ length: config.num_hidden_layers }, () => layer),
    norm: { kind: "layer", epsilon: 1e-5, weightOffset: 0 },
    positions: {
      kind: "learned",
      rows: config.max_position_embeddings + positionOffset,
      offset: positionOffset,
    },
    attentionScale: shape.headDim ** -0.5,
    attentionSoftcap: null,
    queryKeyNorm: false,
    embeddingScale: 1,
    finalSoftcap: null,
    tied: config.tie_word_embeddings,
    eosTokenIds: endTokensOf(config),
  };
}

function namesOf(config: OptConfig): DecoderNames {
  return {
    optionalPrefix: "model.",
    tokens: "model.decoder.embed_tokens",
    positions: "model.decoder.embed_positions",
    layer: (index) => layerNames(index, config.enable_bias),
    finalNorm: "model.decoder.final_layer_norm",
    head: linearNames(["lm_head"]),
  };
}

function layerNames(index: number, bias: boolean): LayerNames {
  const layer = `model.decoder.layers.${index}`;
  const projections = ["q_proj", "k_proj", "v_proj"].map((name) => `${layer}.self_attn.${name}`);
  return {
    attentionNorm: `${layer}.self_attn_layer_norm`,
    qkv: linearNames(projections, bias),
    attentionOutput: linearNames([`${layer}.self_attn.out_proj`], bias),
    feedForwardNorm: `${layer}.final_layer_norm`,
    feedForward: {
      kind: "dense",
      input: linearNames([`${layer}.fc1`], bias),
      output: linearNames([`${layer}.fc2`], bias),
    },
  };
}
