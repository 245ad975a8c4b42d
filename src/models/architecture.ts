import type { JsonConfig } from "./config.ts";
import type { DecoderSpec } from "./decoder-spec.ts";
import type { EncoderSpec } from "./encoder-spec.ts";
import type { DecoderNames, EncoderNames } from "./weight-names.ts";

/** A model that continues text: a decoder. */
export interface DecoderModel {
  readonly kind: "decoder";
  readonly spec: DecoderSpec;
  readonly names: DecoderNames;
}

/** A model that turns a text into one vector: an encoder. */
export interface EncoderModel {
  readonly kind: "encoder";
  readonly spec: EncoderSpec;
  readonly names: EncoderNames;
}

/** The models that a config.json may describe. */
export type Model = DecoderModel | EncoderModel;

/** A model family: turns its config.json into a model. */
export interface Architecture {
  /** The values of `model_type` that it reads. */
  readonly modelTypes: readonly string[];
  /**
   * Throws CHECKPOINT_INVALID (a wrong field) or UNSUPPORTED_MODEL (a valid one that is not
   * supported).
   */
  describe(config: JsonConfig): Model;
}
