import { EngineError } from "#base";
import {
  invalidConfig,
  type JsonConfig,
  ModelTypeConfig,
  parseConfig,
  quoted,
  ReDrafterConfig,
  unsupportedConfig,
} from "../config.ts";
import type { DecoderSpec } from "../decoder-spec.ts";

/** The value of `model_type` in a ReDrafter's config.json. */
const MODEL_TYPE = "recurrent_drafting_drafter";

/** A ReDrafter as data: its network predicts tokens from one hidden state of the base. */
export interface ReDrafterSpec {
  /** H: of the base's hidden states and embeddings, and of the recurrent state. */
  readonly hiddenSize: number;
  /** X: of the head's rows; 2 H unless the checkpoint projects them. */
  readonly exitSize: number;
  /** Residual blocks before the output layer. */
  readonly blocks: number;
  /** V: tokens of the base. */
  readonly vocabularySize: number;
  /** Tokens that it can draft; fewer than V where the checkpoint maps them (`d2t`). */
  readonly draftVocabularySize: number;
  /** Whether the state is a recurrent layer's; false: it is the sum of embeddings. */
  readonly recurrent: boolean;
  /** `baseFingerprint` of the model it was trained for; null: not stated. */
  readonly base: string | null;
}

/**
 * The drafter that a config.json describes. Throws UNSUPPORTED_MODEL for another kind, and
 * CHECKPOINT_INVALID, which names the wrong field.
 */
export function describeReDrafter(json: JsonConfig): ReDrafterSpec {
  const { model_type: modelType } = parseConfig(ModelTypeConfig, json);
  if (modelType !== MODEL_TYPE) throw unsupportedConfig("model_type", MODEL_TYPE, modelType);
  const config = parseConfig(ReDrafterConfig, json);
  const { vocab_size: vocabularySize, draft_vocab_size: drafted } = config;
  const draftVocabularySize = drafted ?? vocabularySize;
  if (draftVocabularySize > vocabularySize) {
    throw invalidConfig("draft_vocab_size", `at most vocab_size, ${vocabularySize}`, drafted);
  }
  return {
    hiddenSize: config.hidden_size,
    exitSize: config.exit_dim,
    blocks: config.num_draft_layers,
    vocabularySize,
    draftVocabularySize,
    recurrent: config.rnn,
    base: config.base_fingerprint ?? null,
  };
}

/** The model that drafts are for. */
export interface DraftedBase {
  readonly spec: Pick<DecoderSpec, "hiddenSize" | "vocabularySize">;
  /** Null: unknown, as that of random weights. */
  readonly fingerprint: string | null;
}

/** What a drafter says of the model that it was made for; null: nothing. */
export interface MadeFor {
  readonly hiddenSize: number | null;
  readonly vocabularySize: number | null;
  readonly base: string | null;
}

/** Throws INVALID_ARGUMENT for a drafter that was made for another model. `path`: the drafter's. */
export function checkBase(drafter: MadeFor, base: DraftedBase, path: string): void {
  const { spec, fingerprint } = base;
  checkField(path, ["hidden_size", drafter.hiddenSize, spec.hiddenSize]);
  checkField(path, ["vocab_size", drafter.vocabularySize, spec.vocabularySize]);
  checkField(path, ["base_fingerprint", drafter.base, fingerprint]);
}

function checkField(
  path: string,
  [field, value, wanted]: readonly [string, number | string | null, number | string | null],
): void {
  if (value === null || wanted === null || value === wanted) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot draft with ${path}: ${field} must be ${quoted(wanted)}, the model's, current value ` +
      `is ${quoted(value)}; use a drafter that was trained for this model`,
    { param: "speculative.model" },
  );
}
