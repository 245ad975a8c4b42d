/**
 * Unbounded generation in bounded memory: every layer attends to a window of last positions, and
 * optionally to the first ones. Source: Xiao et al. 2023, "Efficient streaming language models with
 * attention sinks".
 */
import { EngineError } from "#base";
import type { DecoderSpec, LayerSpec } from "./decoder-spec.ts";

/** Window and sinks of the settings, in addition to the model's own windows. */
export interface Streaming {
  /** Most positions that a token attends to, its own and the sinks included; at least 1. */
  readonly window: number;
  /**
   * First positions that stay visible, less than `window`; 0: a plain window. With sinks a token
   * behind the window is encoded at its place among the visible positions, so a sequence may be
   * longer than any that the model was trained for.
   */
  readonly sinkTokens: number;
}

/**
 * Positions of a sequence that stay visible: its first and its last ones. The input of #kvcache's
 * `CacheWindow`.
 */
export interface DecoderWindow {
  /** Most positions that a token of any layer attends to, its own and the sinks included. */
  readonly tokens: number;
  /** Number of them that are the sequence's first. */
  readonly sinkTokens: number;
}

/** A layer's window under `streaming`; null: full attention. */
export function layerWindow(
  layer: Pick<LayerSpec, "window">,
  streaming: Streaming | null,
): number | null {
  if (streaming === null) return layer.window;
  return Math.min(layer.window ?? streaming.window, streaming.window);
}

/**
 * Positions that a cache of all layers must keep: the largest window, if every layer has one. null:
 * some layer has full attention, so no position may be dropped.
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
 * Throws INVALID_ARGUMENT where sinks are impossible: for a model with learned positions, whose
 * table ends, for one whose layers have windows of their own, and for a window that exceeds the
 * model's training.
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
      "layers must attend to all positions, some have windows of their own; set " +
        "attentionSinks to 0",
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
