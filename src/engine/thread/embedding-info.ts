/** How a loaded model embeds texts, for requests and for clients. */
import { EngineError } from "#base";
import type { Checkpoint } from "#checkpoint";
import type { HiddenPooling } from "#engine/loop";
import type { EmbeddingInfo, PairScoringInfo } from "#engine/protocol";
import {
  type DecoderSpec,
  type EncoderModel,
  type EncoderSpec,
  type Model,
  plainEmbedding,
  RowPool,
  scoreActivation,
  type TextEmbedding,
  textEmbedding,
} from "#models";

/** The description of an embedding for clients. */
export function embeddingInfo(
  { pooling, prompts, tokensMax }: TextEmbedding,
  { hiddenSize }: { readonly hiddenSize: number },
  declared: boolean,
): EmbeddingInfo {
  const { modes, normalize: normalized } = pooling;
  const { texts, defaultName: defaultPrompt, pooled: promptPooled } = prompts;
  return {
    ...{ pooling: modes, normalized, dimensions: modes.length * hiddenSize, tokensMax, declared },
    ...{ prompts: texts, defaultPrompt, promptPooled },
  };
}

/**
 * What an encoder is for: pairs where its folder makes it a cross-encoder, which then has its head;
 * else vectors, which need none.
 */
export function encoderUse(
  { spec }: EncoderModel,
  { config, sentence }: Checkpoint,
): {
  readonly spec: EncoderSpec;
  readonly embedding: TextEmbedding;
  readonly pairScoring: PairScoringInfo | null;
} {
  const activation = scoreActivation(spec, config, sentence);
  if (activation === null) {
    const embedding = textEmbedding(sentence, spec);
    return { spec: { ...spec, head: null }, embedding, pairScoring: null };
  }
  // Its modules do not pool: only the limits of texts count.
  const embedding = textEmbedding(sentence && { ...sentence, modules: null }, spec);
  const { tokensMax } = embedding;
  return { spec, embedding, pairScoring: { activation, tokensMax } };
}

/**
 * The same model with its token table as its output layer, where it was published to embed and
 * without an output layer: its vectors need none.
 */
export function withoutHead(model: Model, { sentence, tensors }: Checkpoint): Model {
  if (model.kind !== "decoder" || model.spec.tied || sentence?.modules == null) return model;
  const isThere = model.names.head.modules.some((module) => tensors.has(`${module}.weight`));
  if (isThere || tensors.size === 0) return model;
  return { ...model, spec: { ...model.spec, tied: true } };
}

/**
 * How a decoder embeds: as its folder specifies where sentence-transformers wrote it, else means of
 * length 1. A decoder whose specified embedding is unsupported still generates: the error is thrown
 * when a vector is requested.
 */
export function decoderEmbedding(
  checkpoint: Checkpoint,
  spec: DecoderSpec,
  contextTokensMax: number,
): { readonly pooling: () => HiddenPooling; readonly info: EmbeddingInfo | null } {
  // The scheduler leaves room for a token behind every prompt.
  const most = contextTokensMax - 1;
  const { sentence } = checkpoint;
  if (sentence?.modules == null) {
    const embedding = plainEmbedding(most);
    return {
      pooling: () => hiddenPooling(embedding, spec),
      info: embeddingInfo(embedding, spec, false),
    };
  }
  try {
    const whole = textEmbedding(sentence, spec);
    const embedding = { ...whole, tokensMax: Math.min(whole.tokensMax, most) };
    return {
      pooling: () => hiddenPooling(embedding, spec),
      info: embeddingInfo(embedding, spec, true),
    };
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== "UNSUPPORTED_MODEL") throw error;
    return {
      pooling: () => {
        throw error;
      },
      info: null,
    };
  }
}

function hiddenPooling(
  { pooling, tokensMax }: TextEmbedding,
  { hiddenSize }: { readonly hiddenSize: number },
): HiddenPooling {
  return { tokensMax, newPool: (skipped) => new RowPool(hiddenSize, pooling, skipped) };
}
