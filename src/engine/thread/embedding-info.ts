/** How a loaded model embeds texts, for requests and for clients. */
import { EngineError } from "#base";
import type { Checkpoint } from "#checkpoint";
import type { HiddenPooling } from "#engine/loop";
import type { EmbeddingInfo } from "#engine/protocol";
import {
  type DecoderSpec,
  plainEmbedding,
  RowPool,
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
 * How a decoder embeds: as its folder specifies where sentence-transformers wrote it, else means of
 * length 1. A decoder whose specified embedding is unsupported still generates: the error is thrown
 * when a vector is requested.
 */
export function decoderEmbedding(
  checkpoint: Checkpoint,
  spec: DecoderSpec,
): { readonly pooling: () => HiddenPooling; readonly info: EmbeddingInfo | null } {
  const { contextTokensMax: tokensMax } = spec;
  const { sentence } = checkpoint;
  if (sentence?.modules == null) {
    const embedding = plainEmbedding(tokensMax);
    return {
      pooling: () => hiddenPooling(embedding, spec),
      info: embeddingInfo(embedding, spec, false),
    };
  }
  try {
    const embedding = textEmbedding(sentence, spec);
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
