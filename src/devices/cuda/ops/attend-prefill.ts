import { type Kernel, KernelParams, PACKED_ROWS } from "#devices/cuda/kernels";
import { activationOf, type CudaKvPool, kvPoolOf } from "#devices/cuda/memory";
import type { PagedAttentionInput } from "../../ops.ts";
import { attendPrefillWgmma, canAttendPrefillWgmma } from "./attend-prefill-wgmma.ts";
import { ATTENTION_INPUT, attentionFields } from "./attention-fields.ts";
import type { CudaContext } from "./context.ts";
import { HEAD_DIM_MAX } from "./head-dim.ts";

/** Head sizes that kernels exist for; smaller heads are padded to the next. */
const dimsOfKernels = [64, 96, 128, 256] as const;
type KernelDims = (typeof dimsOfKernels)[number];

const threads = 128;
/** Most rows of one kv head with which a batch is decoded rather than prefilled. */
const decodeRowsMax = 16;

/**
 * Rows up to which a long context is left to the exact kernels where few blocks would walk over it:
 * those kernels cut the context, so that the whole GPU works.
 */
const fewRows = 64;
const longContext = 8192;

/** `PrefillParams` of native/cuda/attend-prefill.h. */
const params = new KernelParams([...PACKED_ROWS, ...ATTENTION_INPUT]);

/**
 * Whether the kernel for sequences with many query rows supports this input. It rounds queries and
 * weights to 16 bits, which is invisible where the output is rounded to them: f32 and i8 use the
 * exact kernels.
 */
export function canAttendPrefill(context: CudaContext, input: PagedAttentionInput): boolean {
  const { out, heads, batch, scale } = input;
  const cache = kvPoolOf(input.cache);
  if (out.format !== "bf16" || cache.format === "f32" || !(scale > 0)) return false;
  if (cache.headDim % 8 !== 0 || cache.headDim > HEAD_DIM_MAX) return false;
  const rowsMax = (batch.queryLengthMax * heads) / cache.kvHeads;
  if (rowsMax <= decodeRowsMax) return false;
  const blocks = batch.sequences * cache.kvHeads;
  const isBusy = blocks >= context.gpu.multiprocessors;
  if (rowsMax <= fewRows && batch.contextLengthMax > longContext && !isBusy) return false;
  return prefillShapeOf(cache).sharedBytes <= context.gpu.sharedBytesMax;
}

/**
 * Attention of the sequences that are not decoded (`isDecode` of native/cuda/attention-input.h).
 * `decodeRows` is passed to `attentionFields`.
 */
export function attendPrefill(
  context: CudaContext,
  input: PagedAttentionInput,
  decodeRows: number,
): void {
  if (canAttendPrefillWgmma(context, input)) {
    attendPrefillWgmma(context, input, decodeRows);
    return;
  }
  const { count, heads, batch } = input;
  const cache = kvPoolOf(input.cache);
  const { dims, rows, sharedBytes } = prefillShapeOf(cache);
  const kernel = kernelOf(context, cache, dims);
  kernel.allowSharedBytes(sharedBytes);
  const out = activationOf(input.out, count, heads * cache.headDim);
  params.fill(...out.params, ...attentionFields(input, decodeRows));
  const tiles = Math.floor((count * (heads / cache.kvHeads)) / rows) + batch.sequences;
  context.launcher.launch(kernel, { grid: [tiles * cache.kvHeads], threads, sharedBytes }, params);
}

function kernelOf({ kernels }: CudaContext, { format }: CudaKvPool, dims: KernelDims): Kernel {
  if (format === "bf16") return kernels[`attend_prefill_bf16_${dims}`];
  if (format === "f16") return kernels[`attend_prefill_f16_${dims}`];
  return kernels[`attend_prefill_scaled_${dims}`];
}

/** `PrefillShape` of native/cuda/attend-prefill-shared.h. */
interface PrefillShape {
  readonly dims: KernelDims;
  /** Query rows of a block. */
  readonly rows: number;
  readonly sharedBytes: number;
}

function prefillShapeOf({ headDim, format }: CudaKvPool): PrefillShape {
  const dims = dimsOfKernels.find((each) => each >= headDim) ?? HEAD_DIM_MAX;
  const large = dims > 128;
  const rows = large ? 64 : 128;
  const positions = large ? 32 : 64;
  const stored = format === "i8" || format === "fp8";
  // Keys and values of 2 bytes twice; or once, beside the stored bytes of one of them.
  const tiles = 2 * positions * dims * (stored ? 3 : 4);
  const perPosition = 8 + (stored ? 8 : 0);
  return { dims, rows, sharedBytes: rows * dims * 2 + tiles + 4 * positions * perPosition };
}
