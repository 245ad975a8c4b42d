import type { ActivationKind } from "#devices";
import {
  DecoderConfig,
  Eagle3Config,
  invalidConfig,
  type JsonConfig,
  ModelTypeConfig,
  parseConfig,
  unsupportedConfig,
} from "../config.ts";
import { activationOf, type HeadShape, headShapeOf } from "../config-parts.ts";
import type { DecoderSpec, RopeSpec } from "../decoder-spec.ts";
import { ropeFrom } from "../rope-config.ts";
import type { MadeFor } from "./redrafter-spec.ts";

/**
 * An EAGLE-3 as data: one decoder layer over the base's hidden states and the tokens behind them.
 * Letters: H hidden size · B the base's · N hidden states of the base · V vocabulary.
 */
export interface Eagle3Spec extends HeadShape {
  /** H. */
  readonly hiddenSize: number;
  /** B. */
  readonly baseHiddenSize: number;
  /** V: tokens of the base. */
  readonly vocabularySize: number;
  /** Tokens that it can draft; fewer than V where the checkpoint maps them (`d2t`). */
  readonly draftVocabularySize: number;
  /** [N], rising: layers of the base whose inputs it reads; 0: the embeddings. */
  readonly taps: readonly number[];
  /** Norms before the N hidden states are joined, or of them together (EAGLE-3.1). */
  readonly inputNorm: "none" | "each" | "joined";
  /** The residual begins at the normalised hidden state. */
  readonly normBeforeResidual: boolean;
  /** What the next drafted token reads is normalised, too (EAGLE-3.1). */
  readonly normOutput: boolean;
  readonly feedForwardSize: number;
  readonly activation: ActivationKind;
  readonly normEpsilon: number;
  readonly queryKeyNorm: boolean;
  readonly attentionBias: boolean;
  readonly feedForwardBias: boolean;
  readonly rope: RopeSpec;
  readonly contextTokensMax: number;
  /** What it says of the model that it was trained for. */
  readonly madeFor: MadeFor;
}

/** Layers of an EAGLE-3's pool: see `Eagle3Context`. */
export const EAGLE3_KV_LAYERS = 3;

/**
 * The drafter that a config.json describes, for a base: with the fields of a decoder of one layer
 * at its top (SafeAILab/EAGLE, SpecForge), or in `transformer_layer_config` (speculators). Throws
 * UNSUPPORTED_MODEL for what is not supported, by name, CHECKPOINT_INVALID, which names the wrong
 * field.
 */
export function describeEagle3(
  json: JsonConfig,
  base: Pick<DecoderSpec, "hiddenSize" | "layers">,
): Eagle3Spec {
  const config = parseConfig(Eagle3Config, json);
  const fields = config.transformer_layer_config ?? json;
  // First, so that another kind of drafter is named as such.
  const { model_type: modelType } = parseConfig(ModelTypeConfig, fields);
  if (!KINDS.includes(modelType)) {
    throw unsupportedConfig("model_type", `one of ${KINDS.join(", ")}`, modelType);
  }
  const layer = parseConfig(DecoderConfig, { num_hidden_layers: 1, ...fields });
  refuseOthers(config, layer);
  const vocabularySize = layer.vocab_size;
  const draftVocabularySize = config.draft_vocab_size ?? vocabularySize;
  if (draftVocabularySize > vocabularySize) {
    const wanted = `at most vocab_size, ${vocabularySize}`;
    throw invalidConfig("draft_vocab_size", wanted, draftVocabularySize);
  }
  const shape = headShapeOf(layer);
  const target = config.target_hidden_size ?? null;
  return {
    ...shape,
    hiddenSize: layer.hidden_size,
    baseHiddenSize: base.hiddenSize,
    ...{ vocabularySize, draftVocabularySize },
    taps: tapsOf(config, base.layers.length),
    inputNorm: inputNormOf(config),
    normBeforeResidual: config.norm_before_residual ?? false,
    normOutput: config.norm_output ?? false,
    feedForwardSize: layer.intermediate_size,
    activation: activationOf("hidden_act", layer.hidden_act),
    normEpsilon: layer.rms_norm_eps,
    queryKeyNorm: layer.model_type === "qwen3",
    attentionBias: layer.attention_bias ?? false,
    feedForwardBias: layer.mlp_bias ?? false,
    rope: ropeFrom(layer, { headDim: shape.headDim, theta: 10_000 }),
    contextTokensMax: layer.max_position_embeddings,
    madeFor: {
      // Without a size of its own it was trained for a base of the same.
      hiddenSize: target ?? layer.hidden_size,
      vocabularySize,
      base: config.base_fingerprint ?? null,
    },
  };
}

type Config = ReturnType<typeof Eagle3Config.parse>;
type Layer = ReturnType<typeof DecoderConfig.parse>;

const KINDS = ["llama", "qwen3"];

function refuseOthers(config: Config, layer: Layer): void {
  const kind = config.speculators_model_type ?? "eagle3";
  if (kind !== "eagle3") throw unsupportedConfig("speculators_model_type", '"eagle3"', kind);
  if (layer.num_hidden_layers !== 1) {
    throw unsupportedConfig("num_hidden_layers", "1", layer.num_hidden_layers);
  }
  if (config.eagle_config?.use_aux_hidden_state === false) {
    throw unsupportedConfig("eagle_config.use_aux_hidden_state", "true", false);
  }
  if (config.parallel_drafting === true) {
    throw unsupportedConfig(
      "parallel_drafting",
      "false, since tokens are drafted one by one",
      config.parallel_drafting,
    );
  }
}

function inputNormOf({ fc_norm: each, norm_before_fc: joined }: Config): Eagle3Spec["inputNorm"] {
  if (each === true && joined === true) {
    throw unsupportedConfig("norm_before_fc", "false where fc_norm is true", joined);
  }
  if (each === true) return "each";
  return joined === true ? "joined" : "none";
}

/**
 * Low, middle and high, unless the config names them. At its top (vLLM, speculators) a layer's
 * number means its input. In `eagle_config` (SGLang, SpecForge) it means its output in files whose
 * first layer is 1, and its input in others: SGLang tells them apart so, too.
 */
function tapsOf(config: Config, layers: number): readonly number[] {
  const inputs = config.eagle_aux_hidden_state_layer_ids;
  const others = config.eagle_config?.eagle_aux_hidden_state_layer_ids;
  const usual = [2, Math.floor(layers / 2), layers - 3];
  const taps = inputs ?? (others?.[0] === 1 ? others.map((layer) => layer + 1) : others) ?? usual;
  const isRising = taps.every((tap, place) => tap > (taps[place - 1] ?? -1));
  if (isRising && (taps.at(-1) ?? 0) < layers) return taps;
  throw invalidConfig(
    "eagle_aux_hidden_state_layer_ids",
    `layers of the base in rising order, whose inputs are those of 0 to ${layers - 1} (by ` +
      `default ${usual.join(", ")})`,
    taps,
  );
}
