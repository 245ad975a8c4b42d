import type { Architecture } from "../architecture.ts";
import { type JsonConfig, NomicBertConfig, parseConfig, unsupportedConfig } from "../config.ts";
import { headShapeOf } from "../config-parts.ts";
import type { EncoderSpec } from "../encoder-spec.ts";
import { ropeFrom } from "../rope-config.ts";
import type { EncoderLayerNames, EncoderNames } from "../weight-names.ts";
import { linearNames } from "./llama-like.ts";

const THETA = 1_000;

/** Nomic's BERT: rope and a gated network in place of learned positions, no biases but of norms. */
export const nomicBert: Architecture = {
  modelTypes: ["nomic_bert"],
  describe(json) {
    const config = parseConfig(NomicBertConfig, modernFields(json));
    refuseVariants(config);
    return { kind: "encoder", spec: specOf(config), names };
  },
};

/** The first files of the family name their fields as GPT-2 does. */
const FORMER_FIELDS: readonly (readonly [former: string, field: string])[] = [
  ["n_embd", "hidden_size"],
  ["n_inner", "intermediate_size"],
  ["n_layer", "num_hidden_layers"],
  ["n_head", "num_attention_heads"],
  ["n_positions", "max_position_embeddings"],
  ["layer_norm_epsilon", "layer_norm_eps"],
  ["activation_function", "hidden_act"],
  ["rotary_emb_base", "rope_theta"],
  ["rotary_emb_fraction", "partial_rotary_factor"],
];

function modernFields(json: JsonConfig): JsonConfig {
  const fields = FORMER_FIELDS.flatMap(([former, field]) =>
    Object.hasOwn(json, former) && !Object.hasOwn(json, field) ? [[field, json[former]]] : [],
  );
  return { ...json, ...Object.fromEntries(fields) };
}

/** Parts that no published model of the family has, or that change nothing within its context. */
function refuseVariants(config: NomicBertConfig): void {
  const flags = [
    "prenorm",
    "rotary_emb_interleaved",
    "qkv_proj_bias",
    "mlp_fc1_bias",
    "mlp_fc2_bias",
    "parallel_block",
    "use_rms_norm",
  ] as const;
  for (const flag of flags) {
    if (config[flag] === true) throw unsupportedConfig(flag, "false", true);
  }
  if (config.rotary_emb_scale_base) {
    throw unsupportedConfig("rotary_emb_scale_base", "null", config.rotary_emb_scale_base);
  }
  if (config.hidden_act !== "silu" && config.hidden_act !== "swiglu") {
    throw unsupportedConfig("activation_function", "swiglu", config.hidden_act);
  }
}

function specOf(config: NomicBertConfig): EncoderSpec {
  const { heads, headDim } = headShapeOf(config);
  const contextTokensMax = contextOf(config);
  const rope = ropeFrom(config, { headDim, theta: THETA });
  return {
    architecture: "nomic_bert",
    hiddenSize: config.hidden_size,
    heads,
    headDim,
    feedForwardSize: config.intermediate_size,
    activation: "silu",
    gated: true,
    layers: Array.from({ length: config.num_hidden_layers }, () => ({ reach: null, rope })),
    vocabularySize: config.vocab_size,
    contextTokensMax,
    positions: { kind: "rope" },
    tokenTypes: config.type_vocab_size,
    epsilon: config.layer_norm_eps,
    normBias: true,
    norms: "behind",
    head: null,
  };
}

/**
 * The first files name more positions than the model was trained for, and stretch the angles of
 * longer texts only where `rotary_scaling_factor` says so: it is not followed here, so that texts
 * end where angles would change.
 */
function contextOf(config: NomicBertConfig): number {
  const { max_position_embeddings: positions, max_trained_positions: trained } = config;
  return config.rotary_scaling_factor && trained ? Math.min(positions, trained) : positions;
}

const names: EncoderNames = {
  optionalPrefix: "bert.",
  tokens: "bert.embeddings.word_embeddings",
  tokenTypes: "bert.embeddings.token_type_embeddings",
  embeddingNorm: "bert.emb_ln",
  layer: layerNames,
};

function layerNames(index: number): EncoderLayerNames {
  const layer = `bert.encoder.layers.${index}`;
  return {
    qkv: linearNames([`${layer}.attn.Wqkv`]),
    attentionOutput: linearNames([`${layer}.attn.out_proj`]),
    attentionNorm: `${layer}.norm1`,
    input: linearNames([`${layer}.mlp.fc12`, `${layer}.mlp.fc11`]),
    output: linearNames([`${layer}.mlp.fc2`]),
    outputNorm: `${layer}.norm2`,
  };
}
