import type { Architecture } from "../architecture.ts";
import { BertConfig, parseConfig, unsupportedConfig } from "../config.ts";
import { activationOf, headShapeOf } from "../config-parts.ts";
import type { EncoderLayerNames, EncoderNames } from "../weight-names.ts";
import { linearNames } from "./llama-like.ts";

/** BERT and the sentence encoders made from it (MiniLM, BGE, E5, GTE). */
export const bert: Architecture = {
  modelTypes: ["bert"],
  describe(json) {
    const config = parseConfig(BertConfig, json);
    refuseVariants(config);
    const { heads, headDim } = headShapeOf(config);
    const spec = {
      architecture: "bert",
      hiddenSize: config.hidden_size,
      heads,
      headDim,
      feedForwardSize: config.intermediate_size,
      activation: activationOf("hidden_act", config.hidden_act),
      layers: config.num_hidden_layers,
      vocabularySize: config.vocab_size,
      contextTokensMax: config.max_position_embeddings,
      tokenTypes: config.type_vocab_size,
      epsilon: config.layer_norm_eps,
    };
    return { kind: "encoder", spec, names };
  },
};

function refuseVariants(config: BertConfig): void {
  if (config.is_decoder) throw unsupportedConfig("is_decoder", "false", true);
  if (config.add_cross_attention) throw unsupportedConfig("add_cross_attention", "false", true);
  if (config.position_embedding_type !== "absolute") {
    throw unsupportedConfig("position_embedding_type", "absolute", config.position_embedding_type);
  }
}

const embeddings = "bert.embeddings";

const names: EncoderNames = {
  optionalPrefix: "bert.",
  tokens: `${embeddings}.word_embeddings`,
  positions: `${embeddings}.position_embeddings`,
  tokenTypes: `${embeddings}.token_type_embeddings`,
  embeddingNorm: `${embeddings}.LayerNorm`,
  layer: layerNames,
};

function layerNames(index: number): EncoderLayerNames {
  const layer = `bert.encoder.layer.${index}`;
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
