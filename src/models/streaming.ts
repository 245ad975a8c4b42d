/**
 * Generation without an end in bounded memory: every layer sees a window of last positions, and
 * beside it maybe the first ones. Source: Xiao et al. 2023, "Efficient streaming language models
 * with attention sinks".
 */
import { EngineError } from "#base";
import type { DecoderSpec, LayerSpec } from "./decoder-spec.ts";

/** What a decoder is told to see, beside what its model was made to see. */
export interface Streaming {
  /** Most positions that a token sees, its own and the sinks included; at least 1. */
  readonly window: number;
  /**
   * First positions that stay visible, less than `window`; 0: a plain window. With sinks a token
   * behind the window stands at its place among what it sees, so a sequence may be longer than
   * any that the model was trained for.
   */
  readonly sinkTokens: number;
}

/**
 * Which positions of a sequence are still seen, whatever comes: its first and its last ones. What
 * #kvcache's `CacheWindow` wants to know.
 */
export interface DecoderWindow {
  /** Most positions that any layer's token sees, its own and the sinks included. */
  readonly tokens: number;
  /** So many of them are the sequence's first. */
  readonly sinkTokens: number;
}

/** A layer's window under `streaming`; null: it sees everything. */
export function layerWindow(layer: LayerSpec, streaming: Streaming | null): number | null {
  if (streaming === null) return layer.window;
  return Math.min(layer.window ?? streaming.window, streaming.window);
}

/**
 * What a cache of all layers must keep: the largest window, if every layer has one. null: some
 * layer sees everything, so nothing may be forgotten.
 */
export function cacheWindow(spec: DecoderSpec, streaming: Streaming | null): DecoderWindow | null {
  let tokens = 0;
  for (const layer of spec.layers) {
    const window = layerWindow(layer, streaming);
    if (window === null) return null;
    tokens = Math.max(tokens, window);
  }
  return tokens === 0 ? null : { tokens, sinkTokens: streaming?.sinkTokens ?? 0 };
}

/**
 * Throws INVALID_ARGUMENT where sinks make no sense: for a model that knows positions by a table,
 * which ends, for one whose layers have windows without sinks, and for a window that the model was
 * not trained to see whole.
 */
export function checkStreaming(spec: DecoderSpec, { window, sinkTokens }: Streaming): void {
  if (sinkTokens === 0) return;
  if (spec.positions.kind !== "rope") {
    throw unusable(
      spec,
      "attentionSinks",
      `positions must be rotary, they are learned; set attentionSinks to 0`,
    );
  }
  if (spec.layers.some((layer) => layer.window !== null)) {
    throw unusable(
      spec,
      "attentionSinks",
      "layers must see everything, some have windows of their own; set attentionSinks to 0",
    );
  }
  if (window > spec.contextTokensMax) {
    throw unusable(
      spec,
      "attentionWindow",
      `attentionWindow must be at most the ${spec.contextTokensMax} positions that the model was ` +
        `made for, current value is ${window}; lower it`,
    );
  }
}

function unusable(spec: DecoderSpec, param: string, message: string): EngineError {
  const cannot = `Cannot use attention sinks with ${spec.architecture}: `;
  return new EngineError("INVALID_ARGUMENT", cannot + message, { param });
}
