import type { DecoderModel, Model } from "../architecture.ts";
import { invalidConfig, type JsonConfig, unsupportedConfig } from "../config.ts";
import { describeModel } from "../registry.ts";
import type { KvShape } from "./kv-draft-network.ts";
import type { MadeFor } from "./redrafter-spec.ts";

/** A decoder that drafts, as data. */
export interface DraftModelSpec {
  readonly model: DecoderModel;
  readonly madeFor: MadeFor;
  /** Its keys and values of a token. */
  readonly kv: KvShape;
}

/**
 * The decoder that a config.json describes, as a drafter. `contextTokensMax`: the longest served
 * sequence. Throws UNSUPPORTED_MODEL for no decoder and for one whose table of positions ends
 * before that, and CHECKPOINT_INVALID, which names the wrong field.
 */
export function describeDraftModel(json: JsonConfig, contextTokensMax: number): DraftModelSpec {
  const model = decoderOf(describeModel(json));
  const { spec } = model;
  const { positions, layers, kvHeads, headDim, vocabularySize } = spec;
  if (positions.kind === "learned" && spec.contextTokensMax < contextTokensMax) {
    throw unsupportedConfig(
      "max_position_embeddings",
      `at least ${contextTokensMax}, the tokens of the longest sequence, since positions are ` +
        "learned: lower contextTokensMax, or draft with a model of rotary positions;",
      spec.contextTokensMax,
    );
  }
  const base = json.base_fingerprint ?? null;
  if (base !== null && typeof base !== "string") {
    throw invalidConfig("base_fingerprint", "expected string", base);
  }
  return {
    model,
    madeFor: { hiddenSize: null, vocabularySize, base },
    kv: { layers: layers.length, kvHeads, headDim },
  };
}

function decoderOf(model: Model): DecoderModel {
  if (model.kind === "decoder") return model;
  throw unsupportedConfig("model_type", "that of a decoder", model.spec.architecture);
}
