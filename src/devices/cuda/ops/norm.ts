import { KernelParams, PACKED_ROWS } from "#devices/cuda/kernels";
import { activationOf, asPackedRows, tensorOf, vectorOf } from "#devices/cuda/memory";
import type { DeviceTensor } from "../../device-data.ts";
import type { NormInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

/** Fields of `NormParams` in native/cuda/norm.cu. */
const params = new KernelParams([
  ...PACKED_ROWS,
  ...(["pointer", "pointer", "pointer", "pointer", "i32", "f32", "f32", "i32"] as const),
]);

/** Columns of a quad: a thread reads and writes four at a time. */
const quadColumns = 4;

/** Quads that a thread keeps in registers, `kUsualQuads` in native/cuda/norm.cu. */
const usualQuads = 2;

/** Threads that a multiprocessor runs at once, given the registers of native/cuda/norm.cu. */
const threadsAtOnce = 1024;

/**
 * Normalizes rows. Where a row fits the registers of one block, at most as many blocks are launched
 * as run at once, and each computes several rows in turn: it loads the next row while it computes
 * the current one. Other rows have a block each.
 */
export function norm({ kernels, launcher, gpu }: CudaContext, input: NormInput): void {
  const { count, weight } = input;
  const columns = weight.shape[0] ?? 1;
  const vector = (handle: DeviceTensor | undefined) =>
    handle === undefined ? null : vectorOf(handle, "f32", columns);
  const out =
    "dtype" in input.out
      ? asPackedRows(tensorOf(input.out, "f32", count, columns))
      : activationOf(input.out, count, columns).params;
  params.fill(
    ...out,
    tensorOf(input.x, "f32", count, columns).address,
    input.delta === undefined ? null : tensorOf(input.delta, "f32", count, columns).address,
    vector(weight),
    vector(input.bias),
    input.kind === "layer" ? 1 : 0,
    input.epsilon,
    input.weightOffset ?? 0,
    count,
  );
  const threads = normThreads(columns);
  const isAhead = columns % quadColumns === 0 && columns <= usualQuads * quadColumns * threads;
  const blocks = isAhead ? Math.min(count, gpu.multiprocessors * blocksAtOnce(threads)) : count;
  launcher.launch(kernels.norm, { grid: [blocks], threads }, params);
}

/** Blocks that a multiprocessor runs at once. */
function blocksAtOnce(threads: number): number {
  return Math.max(1, Math.min(32, Math.floor(threadsAtOnce / threads)));
}

/**
 * Two quads per thread, so that few rows do not take long and many fill the GPU: whole warps, up to
 * the block's limit. Depends on the columns alone, and so do a row's sums: its result does not
 * depend on the other rows.
 */
function normThreads(columns: number): number {
  return Math.min(1024, Math.max(32, Math.ceil(columns / 8 / 32) * 32));
}
