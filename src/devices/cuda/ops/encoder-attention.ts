import { type Kernel, KernelParams, PACKED_ROWS } from "#devices/cuda/kernels";
import { activationOf, tensorOf, vectorOf } from "#devices/cuda/memory";
import { reachOf } from "../../attention-reach.ts";
import type { EncoderAttentionInput } from "../../ops.ts";
import { attentionRowsOut, TILE_ROWS } from "./attention-out.ts";
import type { CudaContext } from "./context.ts";
import { checkedHeadDim } from "./head-dim.ts";

/** `kAttentionThreads` of native/cuda/attention-segment.h, `kEncoderThreads` of encoder-tile.h. */
const threads = 256;
/** `kEncoderRows` of native/cuda/encoder-tile.h. */
const tiledRows = 64;
/** `kDims` of the tiled kernels, and the shared memory that `EncoderTile` needs. */
const tiledDims = [32, 64, 128] as const;
const tiles = tiledDims.map((dims) => ({ dims, sharedBytes: tileBytes(dims) }));

const params = new KernelParams([
  ...PACKED_ROWS,
  ...(["pointer", "pointer", "i32", "i32", "i32", "f32", "i32"] as const),
]);

/** Calls a kernel with `EncoderAttentionParams` (native/cuda/encoder-attention.cu). */
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
  const kernel = kernelFor(context, headDim);
  const { rows, ...shape } = kernel.shape;
  const grid = [Math.floor(count / rows) + sequences, heads] as const;
  context.launcher.launch(kernel.kernel, { grid, threads, ...shape }, params);
  target.finish();
}

interface EncoderKernel {
  readonly kernel: Kernel;
  /** `rows`: of a block. */
  readonly shape: { readonly rows: number; readonly sharedBytes?: number };
}

/** Tiled kernels read four dimensions at a time. */
function kernelFor({ kernels, gpu }: CudaContext, headDim: number): EncoderKernel {
  const fits = tiles.find(({ dims }) => headDim <= dims);
  if (headDim % 4 !== 0 || fits === undefined || fits.sharedBytes > gpu.sharedBytesMax) {
    return { kernel: kernels.encoder_attention, shape: { rows: TILE_ROWS } };
  }
  const { dims, sharedBytes } = fits;
  const kernel = kernels[`encoder_attention_${dims}`];
  kernel.allowSharedBytes(sharedBytes);
  return { kernel, shape: { rows: tiledRows, sharedBytes } };
}

/** Queries, keys or the weights in their place, and values: `EncoderShape`. */
function tileBytes(dims: number): number {
  const keys = dims > 64 ? 32 : 64;
  const rowStride = tiledRows + 4;
  const keyOrWeights = Math.max(dims * (keys + 4), keys * rowStride);
  return 4 * (dims * rowStride + keyOrWeights + keys * dims);
}
