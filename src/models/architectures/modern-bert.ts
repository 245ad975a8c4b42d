import type { Architecture } from "../architecture.ts";
import { invalidConfig, ModernBertConfig, parseConfig } from "../config.ts";
import { activationOf, headShapeOf } from "../config-parts.ts";
import type { RopeSpec } from "../decoder-spec.ts";
import type { EncoderLayerSpec, EncoderSpec } from "../encoder-spec.ts";
import { ropeFrom } from "../rope-config.ts";
import type { EncoderLayerNames, EncoderNames } from "../weight-names.ts";
import { scoresPairs } from "./bert.ts";
import { linearNames } from "./llama-like.ts";

const THETA = { full_attention: 160_000, sliding_attention: 10_000 } as const;
type LayerType = keyof typeof THETA;

/** ModernBERT: rope, layers that see a window on either side, gated networks, few biases. */
export const modernBert: Architecture = {
  modelTypes: ["modernbert"],
  describe(json) {
    const config = parseConfig(ModernBertConfig, json);
    return { kind: "encoder", spec: specOf(config), names: namesOf(config) };
  },
};

function specOf(config: ModernBertConfig): EncoderSpec {
  const { heads, headDim } = headShapeOf(config);
  return {
    architecture: "modernbert",
    hiddenSize: config.hidden_size,
    heads,
    headDim,
    feedForwardSize: config.intermediate_size,
    activation: activationOf("hidden_activation", config.hidden_activation),
    gated: true,
    layers: layersOf(config, headDim),
    vocabularySize: config.vocab_size,
    contextTokensMax: config.max_position_embeddings,
    positions: { kind: "rope" },
    tokenTypes: 0,
    epsilon: config.norm_eps,
    normBias: config.norm_bias,
    norms: "before",
    head: scoresPairs(config)
      ? {
          pooling: config.classifier_pooling,
          activation: activationOf("classifier_activation", config.classifier_activation),
          norm: true,
          denseBias: config.classifier_bias,
        }
      : null,
  };
}

function layersOf(config: ModernBertConfig, headDim: number): EncoderLayerSpec[] {
  const { num_hidden_layers: layers, layer_types: types } = config;
  if (types && types.length !== layers) {
    throw invalidConfig("layer_types", `${layers} entries`, types.length);
  }
  const kinds = {
    full_attention: { reach: null, rope: ropeOf(config, headDim, "full_attention") },
    // The window is the whole width, the token itself not counted.
    sliding_attention: {
      reach: Math.max(1, Math.floor(config.local_attention / 2)),
      rope: ropeOf(config, headDim, "sliding_attention"),
    },
  };
  return Array.from({ length: layers }, (_, layer) => {
    const isGlobal = layer % config.global_attn_every_n_layers === 0;
    return kinds[types?.[layer] ?? (isGlobal ? "full_attention" : "sliding_attention")];
  });
}

/** In either dialect: an angle for all layers of a type, or a field of its own. */
function ropeOf(config: ModernBertConfig, headDim: number, type: LayerType): RopeSpec {
  const { max_position_embeddings, rope_parameters, rope_scaling } = config;
  const named = type === "full_attention" ? config.global_rope_theta : config.local_rope_theta;
  const theta = named ?? THETA[type];
  const own = rope_parameters?.[type];
  const parameters = own ?? rope_scaling;
  const rope = { max_position_embeddings, ...(parameters && { rope_parameters: parameters }) };
  return ropeFrom(rope, { headDim, theta });
}

function namesOf(config: ModernBertConfig): EncoderNames {
  return {
    optionalPrefix: "model.",
    tokens: "model.embeddings.tok_embeddings",
    embeddingNorm: "model.embeddings.norm",
    layer: (index) => layerNames(config, index),
    finalNorm: "model.final_norm",
    head: {
      dense: linearNames(["head.dense"], config.classifier_bias),
      norm: "head.norm",
      output: linearNames(["classifier"], true),
    },
  };
}

function layerNames({ attention_bias, mlp_bias }: ModernBertConfig, index: number) {
  const layer = `model.layers.${index}`;
  const names: EncoderLayerNames = {
    qkv: linearNames([`${layer}.attn.Wqkv`], attention_bias),
    attentionOutput: linearNames([`${layer}.attn.Wo`], attention_bias),
    // The first layer reads what the norm of the embeddings made.
    attentionNorm: index === 0 ? null : `${layer}.attn_norm`,
    input: linearNames([`${layer}.mlp.Wi`], mlp_bias),
    output: linearNames([`${layer}.mlp.Wo`], mlp_bias),
    outputNorm: `${layer}.mlp_norm`,
  };
  return names;
}
