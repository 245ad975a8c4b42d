import { EngineError } from "#base";
import type { EngineOptions } from "#engine/protocol";
import type { DecoderSpec, Streaming } from "#models";

/** The window and the sinks that options specify; null: the model's attention is unchanged. */
export function streamingOf({ kvCache }: EngineOptions): Streaming | null {
  const { attentionWindow, attentionSinks } = kvCache;
  return attentionWindow === null ? null : { window: attentionWindow, sinkTokens: attentionSinks };
}

/**
 * Most tokens of a sequence that the model supports: its own context, or with sinks, where no
 * position ever goes out of range, the limit of the options.
 */
export function modelContextTokens(options: EngineOptions, spec: DecoderSpec): number {
  if (options.kvCache.attentionSinks === 0) return spec.contextTokensMax;
  return options.scheduler.contextTokensMax ?? spec.contextTokensMax;
}

/**
 * Length of the longest served sequence, by the limits of the model and the options. Independent of
 * memory, so that results never depend on the size of the pool.
 */
export function servedTokens(
  { scheduler }: EngineOptions,
  spec: Pick<DecoderSpec, "contextTokensMax">,
): number {
  return Math.min(spec.contextTokensMax, scheduler.contextTokensMax ?? spec.contextTokensMax);
}

/** Throws INVALID_ARGUMENT where a window is set for a model that has no cache. */
export function refuseWindow({ kvCache }: EngineOptions, architecture: string): void {
  if (kvCache.attentionWindow === null) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot load the model: attentionWindow needs a decoder, ${architecture} is an encoder; ` +
      "leave it out",
    { param: "attentionWindow" },
  );
}
