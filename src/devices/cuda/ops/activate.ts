import { KernelParams, PACKED_ROWS, ROW_THREADS } from "#devices/cuda/kernels";
import { activationOf, tensorOf } from "#devices/cuda/memory";
import type { ActivateInput, ActivationKind } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

/** Codes of activation functions; the same order as `Nonlinearity` in native/cuda/nonlinear.h. */
const KINDS: readonly ActivationKind[] = ["silu", "gelu", "gelu-tanh", "relu", "tanh"];

const params = new KernelParams([...PACKED_ROWS, "pointer", "i32", "i32", "i32"]);

/** `kChunk` and `kThreadChunks` of native/cuda/activate.cu. */
const chunkElements = 8;
const threadChunks = 2;

/** The kernels' code of `kind`; -1 for none. */
export function nonlinearityCode(kind: ActivationKind | undefined): number {
  return kind === undefined ? -1 : KINDS.indexOf(kind);
}

/** Rows to activate, whose shapes were checked. */
export interface ActivateRows {
  readonly count: number;
  readonly kind: ActivationKind;
  /** Fields of `PackedRows`. */
  readonly out: readonly [bigint, number, number];
  readonly x: bigint;
  readonly gated: boolean;
}

/** out = act(x), or act(gate) * up. */
export function activate(context: CudaContext, input: ActivateInput): void {
  const { count, kind, gated } = input;
  const { columns } = input.out;
  const out = activationOf(input.out, count, columns).params;
  const x = tensorOf(input.x, "f32", count, gated ? 2 * columns : columns).address;
  activateRows(context, { count, kind, out, x, gated });
}

/**
 * Calls the kernel with `ActivateParams` (native/cuda/activate.cu). `x` holds f32, or with `halves`
 * bf16, which `out` must be too.
 */
export function activateRows(
  { kernels, launcher }: CudaContext,
  rows: ActivateRows,
  halves = false,
): void {
  const { count, gated } = rows;
  params.fill(...rows.out, rows.x, nonlinearityCode(rows.kind), gated ? 1 : 0, count);
  const kernel = halves ? kernels.activate_bf16 : kernels.activate;
  const blocks = halves ? halvesBlocks(rows) : count;
  launcher.launch(kernel, { grid: [blocks], threads: ROW_THREADS }, params);
}

/** Blocks of `activate_bf16`: of many rows or of a part of one; one per row of odd columns. */
function halvesBlocks({ count, out: [, , columns] }: ActivateRows): number {
  if (columns % chunkElements !== 0) return count;
  return Math.ceil((count * columns) / (chunkElements * threadChunks * ROW_THREADS));
}
