/** The common part of Llama and similar families; a family declares its differences. */
import type { DecoderConfig } from "../config.ts";
import { activationOf, endTokensOf, headShapeOf } from "../config-parts.ts";
import type { DecoderSpec, FeedForwardSpec } from "../decoder-spec.ts";
import { contextTokensOf, ropeFrom } from "../rope-config.ts";
import type { DecoderNames, FeedForwardNames, LayerNames, LinearNames } from "../weight-names.ts";

/** Differences of a family's spec from plain Llama. */
export interface SpecTraits {
  /** Window of each layer; null: none. */
  readonly windows?: readonly (number | null)[];
  /** By default dense and gated, of `intermediate_size`. */
  readonly feedForward?: (layer: number) => FeedForwardSpec;
  readonly queryKeyNorm?: boolean;
  /** Default of the config's `tie_word_embeddings`. */
  readonly tied?: boolean;
  readonly rotaryFactor?: number;
  readonly ropeTheta?: number;
}

/** Llama's spec with `traits`. */
export function llamaLikeSpec(config: DecoderConfig, traits: SpecTraits = {}): DecoderSpec {
  const shape = headShapeOf(config);
  const dense = denseFeedForward(config);
  const rope = ropeFrom(config, {
    headDim: shape.headDim,
    theta: traits.ropeTheta ?? 10_000,
    rotaryFactor: traits.rotaryFactor ?? 1,
  });
  return {
    architecture: config.model_type,
    hiddenSize: config.hidden_size,
    ...shape,
    vocabularySize: config.vocab_size,
    contextTokensMax: contextTokensOf(config, rope),
    layers: Array.from({ length: config.num_hidden_layers }, (_, layer) => ({
      window: traits.windows?.[layer] ?? null,
      feedForward: traits.feedForward?.(layer) ?? dense,
    })),
    norm: { kind: "rms", epsilon: config.rms_norm_eps, weightOffset: 0 },
    positions: rope,
    attentionScale: shape.headDim ** -0.5,
    attentionSoftcap: null,
    queryKeyNorm: traits.queryKeyNorm ?? false,
    embeddingScale: 1,
    finalSoftcap: null,
    tied: config.tie_word_embeddings ?? traits.tied ?? false,
    eosTokenIds: endTokensOf(config),
  };
}

/** Gated, of `intermediate_size`. */
export function denseFeedForward(config: DecoderConfig): FeedForwardSpec {
  return {
    kind: "dense",
    size: config.intermediate_size,
    activation: activationOf("hidden_act", config.hidden_act),
    gated: true,
  };
}

/** Differences of a family's weight names from plain Llama. */
export interface NameTraits {
  readonly qkvBias?: boolean;
  readonly outputBias?: boolean;
  readonly mlpBias?: boolean;
  readonly queryKeyNorm?: boolean;
  readonly feedForward?: (layer: number, module: string) => FeedForwardNames;
}

/** Llama's names with `traits`. */
export function llamaLikeNames(traits: NameTraits = {}): DecoderNames {
  return {
    optionalPrefix: "model.",
    tokens: "model.embed_tokens",
    layer: (index) => llamaLikeLayer(index, traits),
    finalNorm: "model.norm",
    head: linearNames(["lm_head"]),
  };
}

function llamaLikeLayer(index: number, traits: NameTraits): LayerNames {
  const layer = `model.layers.${index}`;
  const attention = `${layer}.self_attn`;
  const projections = ["q_proj", "k_proj", "v_proj"].map((name) => `${attention}.${name}`);
  return {
    attentionNorm: `${layer}.input_layernorm`,
    qkv: linearNames(projections, traits.qkvBias),
    ...(traits.queryKeyNorm === true && {
      queryNorm: `${attention}.q_norm`,
      keyNorm: `${attention}.k_norm`,
    }),
    attentionOutput: linearNames([`${attention}.o_proj`], traits.outputBias),
    feedForwardNorm: `${layer}.post_attention_layernorm`,
    feedForward: traits.feedForward?.(index, layer) ?? gatedNames(`${layer}.mlp`, traits.mlpBias),
  };
}

/** gate_proj, up_proj and down_proj of `module`. */
export function gatedNames(module: string, bias = false): FeedForwardNames & { kind: "dense" } {
  return {
    kind: "dense",
    input: linearNames([`${module}.gate_proj`, `${module}.up_proj`], bias),
    output: linearNames([`${module}.down_proj`], bias),
  };
}

/** Modules stacked by rows. */
export function linearNames(modules: readonly string[], bias = false): LinearNames {
  return { modules, bias };
}
