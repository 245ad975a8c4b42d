import {
  invalidConfig,
  type JsonConfig,
  MedusaConfig,
  parseConfig,
  unsupportedConfig,
} from "../config.ts";
import { assumedAccuracies, type Choices, type HeadAccuracies } from "./medusa-tree.ts";

/** The value of `model_type`, where a Medusa's config.json has one. */
const MODEL_TYPE = "medusa";
/** Choices of a head that a tree may have, as Medusa's own. */
export const CHOICES_MAX = 10;

/** Medusa's heads as data: head n predicts the n-th token behind the root from one hidden state. */
export interface MedusaSpec {
  /** H: of the base's hidden states; null: not stated. */
  readonly hiddenSize: number | null;
  /** Residual layers of a head. */
  readonly layers: number;
  /** V: tokens of the base; null: not stated. */
  readonly vocabularySize: number | null;
  /** Tokens that it can draft, fewer than V where the checkpoint maps them (`d2t`); null: V. */
  readonly draftVocabularySize: number | null;
  /** `baseFingerprint` of the model it was trained for; null: not stated. */
  readonly base: string | null;
  /** Measured accuracies; null: none are stated. */
  readonly accuracies: HeadAccuracies["accuracies"] | null;
  /** The only paths of its trees; null: any. */
  readonly allowed: readonly Choices[] | null;
}

/**
 * The heads that a config.json describes. Throws UNSUPPORTED_MODEL for another kind, and
 * CHECKPOINT_INVALID, which names the wrong field.
 */
export function describeMedusa(json: JsonConfig): MedusaSpec {
  const config = parseConfig(MedusaConfig, json);
  const { model_type: modelType, vocab_size: vocabularySize, draft_vocab_size: drafted } = config;
  if (modelType !== undefined && modelType !== MODEL_TYPE) {
    throw unsupportedConfig("model_type", MODEL_TYPE, modelType);
  }
  if ((drafted ?? 0) > (vocabularySize ?? Number.POSITIVE_INFINITY)) {
    throw invalidConfig("draft_vocab_size", `at most vocab_size, ${vocabularySize}`, drafted);
  }
  return {
    hiddenSize: config.hidden_size ?? null,
    layers: config.medusa_num_layers ?? 1,
    vocabularySize: vocabularySize ?? null,
    draftVocabularySize: drafted ?? null,
    base: config.base_fingerprint ?? null,
    accuracies: config.head_accuracies ?? null,
    allowed: config.medusa_choices ?? null,
  };
}

/**
 * What its trees are made of, for so many heads. Throws CHECKPOINT_INVALID for accuracies of heads
 * that the file does not have.
 */
export function headsOf({ accuracies, allowed }: MedusaSpec, heads: number): HeadAccuracies {
  if (accuracies !== null && accuracies.length > heads) {
    const wanted = `at most ${heads} lists, one for each head in the file`;
    throw invalidConfig("head_accuracies", wanted, accuracies.length);
  }
  return { accuracies: accuracies ?? assumedAccuracies(heads, CHOICES_MAX), allowed };
}
