import { EngineError } from "#base";
import type { EngineOptions } from "#engine/protocol";
import type { DecoderSpec, Streaming } from "#models";

/** The window and the sinks that options ask for; null: what the model sees is left alone. */
export function streamingOf({ kvCache }: EngineOptions): Streaming | null {
  const { attentionWindow, attentionSinks } = kvCache;
  return attentionWindow === null ? null : { window: attentionWindow, sinkTokens: attentionSinks };
}

/**
 * Most tokens of a sequence, as far as the model goes: its own context, or with sinks, behind which
 * no position is ever out of reach, what the options ask for.
 */
export function modelContextTokens(options: EngineOptions, spec: DecoderSpec): number {
  if (options.kvCache.attentionSinks === 0) return spec.contextTokensMax;
  return options.scheduler.contextTokensMax ?? spec.contextTokensMax;
}

/**
 * Length of the longest sequence that is served, as far as the model was made for it and the
 * options allow it. Memory has no part in it, so that what is computed never depends on the pool.
 */
export function servedTokens({ scheduler }: EngineOptions, spec: DecoderSpec): number {
  return Math.min(spec.contextTokensMax, scheduler.contextTokensMax ?? spec.contextTokensMax);
}

/** Throws INVALID_ARGUMENT where a window is asked of a model that has no cache. */
export function refuseWindow({ kvCache }: EngineOptions, architecture: string): void {
  if (kvCache.attentionWindow === null) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot load the model: attentionWindow needs a decoder, ${architecture} is an encoder; ` +
      "leave it out",
    { param: "attentionWindow" },
  );
}
