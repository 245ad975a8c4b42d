import { assert } from "#base";
import { KernelParams, PACKED_ROWS, STREAM_ROWS_MAX } from "#devices/cuda/kernels";
import { activationOf, matrixOf, tensorOf, vectorOf } from "#devices/cuda/memory";
import type { LinearActivateInput } from "../../ops.ts";
import { activate, activateRows, nonlinearityCode } from "./activate.ts";
import type { CudaContext } from "./context.ts";
import { linear, productShape } from "./linear.ts";
import { canStream, STREAM_SOURCE, streamLaunch } from "./linear-stream.ts";

/**
 * Most rows whose GEMM result is stored as bf16; of more it stays f32. No bound: the GEMM's time
 * does not depend on that beyond noise, and its activation reads half as much.
 */
const halvesRowsMax = Number.POSITIVE_INFINITY;

/** A struct with a tensor map ends at a multiple of 64 bytes: hence the tail. */
const params = new KernelParams(
  [...STREAM_SOURCE, ...PACKED_ROWS, ...(["pointer", "i32", "i32", "i32", "i32"] as const)],
  16,
);

/**
 * bf16: few rows in one kernel, whose GEMM result stays on chip; more by cuBLASLt and a separate
 * activation kernel. f32 and i8: a linear and its activation, with the same bits as the two ops.
 */
export function linearActivate(context: CudaContext, input: LinearActivateInput): void {
  const { format } = matrixOf(input.weight);
  if (format === "bf16" && canStream(context, input.count)) streamActivated(context, input);
  else if (format !== "bf16" || !activateHalves(context, input)) activateProduct(context, input);
}

function activateProduct(context: CudaContext, input: LinearActivateInput): void {
  const { count, kind, out, x, weight, bias, gated, scratch } = input;
  linear(context, { count, out: scratch, x, weight, ...(bias !== undefined && { bias }) });
  activate(context, { count, kind, out, x: scratch, gated });
}

/**
 * Stores the GEMM's result as bf16 in the memory of `scratch`: of a prompt's 28,672 columns half
 * the bytes are written and read. The output is rounded to bf16 anyway; rounding gate and up before
 * adds as much again for each, and no error that grows with the layers. False where cuBLASLt cannot
 * do it: it is missing, or there is a bias, which is f32 here and would have to be of the result's
 * type.
 */
function activateHalves(context: CudaContext, input: LinearActivateInput): boolean {
  const { count, kind, gated, bias, scratch } = input;
  if (context.products === null || bias !== undefined) return false;
  // Before Hopper few rows use `linear`'s own kernel, whose GEMM result is small anyway.
  if (count <= STREAM_ROWS_MAX || count > halvesRowsMax) return false;
  const { weight, x, out } = operandsOf(input);
  const product = tensorOf(scratch, "f32", count, weight.rows).address;
  const done = context.products.multiply(
    { ...productShape(count, weight), out: "bf16" },
    { out: product, x: x.address, weight: weight.address },
  );
  if (done) activateRows(context, { count, kind, out: out.params, x: product, gated }, true);
  return done;
}

/** Operands of bf16, checked. */
function operandsOf(input: LinearActivateInput) {
  const { count, gated } = input;
  const weight = matrixOf(input.weight);
  const x = activationOf(input.x, count, weight.columns);
  const out = activationOf(input.out, count, gated ? weight.rows / 2 : weight.rows);
  assert(
    x.format === "bf16" && out.format === "bf16",
    `Cannot multiply ${x.format} rows by a matrix of bf16 into rows of ${out.format}`,
  );
  return { weight, x, out };
}

/** Calls the kernel with `LinearActivateParams` (native/cuda/linear-activate.cu). */
function streamActivated(context: CudaContext, input: LinearActivateInput): void {
  const { count, kind, gated } = input;
  const { weight, x, out } = operandsOf(input);
  const bias = input.bias === undefined ? null : vectorOf(input.bias, "f32", weight.rows);
  const work = { op: "linear_activate", count, x, weight, gated } as const;
  const { kernel, shape, source } = streamLaunch(context, work);
  const flags = [nonlinearityCode(kind), gated ? 1 : 0] as const;
  params.fill(...source, ...out.params, bias, count, weight.columns, ...flags);
  context.launcher.launch(kernel, shape, params);
}
