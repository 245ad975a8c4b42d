import type { JsonConfig } from "./config.ts";
import type { DecoderSpec } from "./decoder-spec.ts";
import type { EncoderSpec } from "./encoder-spec.ts";
import type { DecoderNames, EncoderNames } from "./weight-names.ts";

/** A model that continues text. */
export interface DecoderModel {
  readonly kind: "decoder";
  readonly spec: DecoderSpec;
  readonly names: DecoderNames;
}

/** A model that makes one vector of a text. */
export interface EncoderModel {
  readonly kind: "encoder";
  readonly spec: EncoderSpec;
  readonly names: EncoderNames;
}

/** What a config.json may describe. */
export type Model = DecoderModel | EncoderModel;

/** A family: how its config.json becomes a model. */
export interface Architecture {
  /** The values of `model_type` that it reads. */
  readonly modelTypes: readonly string[];
  /** Throws CHECKPOINT_INVALID (a wrong field) or UNSUPPORTED_MODEL (a right one, not for us). */
  describe(config: JsonConfig): Model;
}
