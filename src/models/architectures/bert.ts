import type { Architecture } from "../architecture.ts";
import { BertConfig, parseConfig, unsupportedConfig } from "../config.ts";
import { activationOf, headShapeOf } from "../config-parts.ts";
import type { EncoderPositions, EncoderSpec } from "../encoder-spec.ts";
import type { EncoderLayerNames, EncoderNames, ScoreHeadNames } from "../weight-names.ts";
import { linearNames } from "./llama-like.ts";

/** BERT and the sentence encoders and rerankers made from it (MiniLM, BGE, E5, GTE). */
export const bert: Architecture = {
  modelTypes: ["bert"],
  describe(json) {
    const config = parseConfig(BertConfig, json);
    const rows = config.max_position_embeddings;
    const positions = { kind: "learned", rows, paddingId: null } as const;
    const spec = bertSpec(config, { architecture: "bert", positions, contextTokensMax: rows });
    const head = {
      dense: linearNames(["bert.pooler.dense"], true),
      output: linearNames(["classifier"], true),
    };
    return { kind: "encoder", spec, names: bertNames("bert.", head) };
  },
};

/** What BERT's descendants have of their own. */
export interface BertTraits {
  readonly architecture: string;
  readonly positions: EncoderPositions;
  readonly contextTokensMax: number;
}

/** A BERT, or one of the models that differ in their positions alone. */
export function bertSpec(config: BertConfig, traits: BertTraits): EncoderSpec {
  refuseVariants(config);
  const { heads, headDim } = headShapeOf(config);
  const layer = { reach: null, rope: null };
  return {
    ...traits,
    hiddenSize: config.hidden_size,
    heads,
    headDim,
    feedForwardSize: config.intermediate_size,
    activation: activationOf("hidden_act", config.hidden_act),
    gated: false,
    layers: Array.from({ length: config.num_hidden_layers }, () => layer),
    vocabularySize: config.vocab_size,
    tokenTypes: config.type_vocab_size,
    epsilon: config.layer_norm_eps,
    normBias: true,
    norms: "behind",
    head: scoresPairs(config)
      ? { pooling: "cls", activation: "tanh", norm: false, denseBias: true }
      : null,
  };
}

/** Whether a configuration is a cross-encoder's: a classifier of one label. */
export function scoresPairs(config: {
  readonly architectures?: readonly string[] | null | undefined;
  readonly id2label?: Readonly<Record<string, unknown>> | null | undefined;
  readonly num_labels?: number | null | undefined;
}): boolean {
  const { architectures, id2label, num_labels: count } = config;
  const labels = id2label ? Object.keys(id2label).length : (count ?? 2);
  return labels === 1 && (architectures ?? []).some((name) => name.endsWith(CLASSIFIER));
}

const CLASSIFIER = "ForSequenceClassification";

function refuseVariants(config: BertConfig): void {
  if (config.is_decoder) throw unsupportedConfig("is_decoder", "false", true);
  if (config.add_cross_attention) throw unsupportedConfig("add_cross_attention", "false", true);
  if (config.position_embedding_type !== "absolute") {
    throw unsupportedConfig("position_embedding_type", "absolute", config.position_embedding_type);
  }
}

/** `prefix`: of all names but the head's, which checkpoints of the bare model omit. */
export function bertNames(prefix: string, head: ScoreHeadNames): EncoderNames {
  const embeddings = `${prefix}embeddings`;
  return {
    optionalPrefix: prefix,
    tokens: `${embeddings}.word_embeddings`,
    positions: `${embeddings}.position_embeddings`,
    tokenTypes: `${embeddings}.token_type_embeddings`,
    embeddingNorm: `${embeddings}.LayerNorm`,
    layer: (index) => layerNames(`${prefix}encoder.layer.${index}`),
    head,
  };
}

function layerNames(layer: string): EncoderLayerNames {
  const projections = ["query", "key", "value"].map((name) => `${layer}.attention.self.${name}`);
  return {
    qkv: linearNames(projections, true),
    attentionOutput: linearNames([`${layer}.attention.output.dense`], true),
    attentionNorm: `${layer}.attention.output.LayerNorm`,
    input: linearNames([`${layer}.intermediate.dense`], true),
    output: linearNames([`${layer}.output.dense`], true),
    outputNorm: `${layer}.output.LayerNorm`,
  };
}
