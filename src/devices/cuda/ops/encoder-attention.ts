import { KernelParams, PACKED_ROWS } from "#devices/cuda/kernels";
import { activationOf, tensorOf, vectorOf } from "#devices/cuda/memory";
import { reachOf } from "../../attention-reach.ts";
import type { EncoderAttentionInput } from "../../ops.ts";
import { attentionRowsOut, TILE_ROWS } from "./attention-out.ts";
import type { CudaContext } from "./context.ts";
import { checkedHeadDim } from "./head-dim.ts";

/** `kAttentionThreads` of native/cuda/attention-segment.h. */
const threads = 256;

const params = new KernelParams([
  ...PACKED_ROWS,
  ...(["pointer", "pointer", "i32", "i32", "i32", "f32", "i32"] as const),
]);

/** Calls the kernel with `EncoderAttentionParams` (native/cuda/encoder-attention.cu). */
export function encoderAttention(context: CudaContext, input: EncoderAttentionInput): void {
  const { count, heads, sequences, scale } = input;
  const headDim = checkedHeadDim(input.headDim);
  const columns = heads * headDim;
  const out = activationOf(input.out, count, columns);
  const target = attentionRowsOut(context, out, { count, moreBytes: 0 });
  params.fill(
    ...target.rows,
    tensorOf(input.qkv, "f32", count, 3 * columns).address,
    vectorOf(input.starts, "i32", sequences + 1),
    sequences,
    heads,
    headDim,
    scale,
    reachOf(input),
  );
  const { kernels, launcher } = context;
  const tiles = Math.floor(count / TILE_ROWS) + sequences;
  launcher.launch(kernels.encoder_attention, { grid: [tiles, heads], threads }, params);
  target.finish();
}
