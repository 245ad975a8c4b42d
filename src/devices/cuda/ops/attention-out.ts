import { type CudaActivation, FORMATS } from "#devices/cuda/memory";
import type { CudaContext } from "./context.ts";
import { convertRows } from "./convert.ts";

/** `kTileRows` of native/cuda/attention-rows.h. */
export const TILE_ROWS = 8;

/** Output rows of attention. */
export interface AttentionOut {
  /** Fields of `PackedRows`: f32 or bf16. */
  readonly rows: readonly [bigint, number, number];
  /** Scratch of `moreBytes`; null for none. */
  readonly more: bigint | null;
  /** Enqueues the remaining work when the rows are written. */
  finish(): void;
}

/**
 * Attention works head by head, and an i8 group of 128 columns may belong to several heads: such
 * rows are written as f32 first and rounded afterwards. `countRoom`: rows to allocate for, where
 * these are more than `count`.
 */
export function attentionRowsOut(
  context: CudaContext,
  out: CudaActivation,
  room: { readonly count: number; readonly countRoom?: number; readonly moreBytes: number },
): AttentionOut {
  const { count, countRoom = count, moreBytes } = room;
  const aside = out.format === "i8";
  if (!aside && moreBytes === 0) return { rows: out.params, more: null, finish: () => {} };
  const rowBytes = aside ? countRoom * out.columns * 4 : 0;
  const [rows, more] = context.scratch.take([rowBytes, moreBytes]);
  return {
    rows: aside ? [rows, FORMATS.indexOf("f32"), out.columns] : out.params,
    more: moreBytes === 0 ? null : more,
    finish: () => {
      if (aside) convertRows(context, out, rows, count);
    },
  };
}
