import { assert } from "#base";
import type { WeightFormat } from "../../device.ts";
import type { LinearInput } from "../../ops.ts";
import type { CudaContext } from "../context.ts";
import {
  activationOf,
  type CudaActivation,
  type CudaMatrix,
  matrixOf,
  tensorOf,
  vectorOf,
} from "../handles.ts";
import type { KernelName } from "../kernel-names.ts";
import { KernelParams, PACKED_ROWS } from "../kernel-params.ts";

/** `kBlockOutputs`, `kLinearRows` and threads of a block in native/cuda/linear-rows.h. */
export const LINEAR_SHAPE = { outputs: 16, rows: 8, threads: 256 } as const;

/** Up to this many rows a kernel that reads each weight twice at most is bound by memory. */
const fewRows = 16;

/** Elements in 16 bytes of bf16: rows are padded with zeros to a multiple of it. */
const bf16Multiple = 8;

const kernelOf: Readonly<Record<WeightFormat, KernelName>> = {
  f32: "linear_f32",
  bf16: "linear_bf16",
  i8: "linear_i8",
};

const params = new KernelParams([
  ...PACKED_ROWS,
  ...PACKED_ROWS,
  ...(["pointer", "pointer", "i32", "i32", "i32"] as const),
]);

/** Operands, checked. */
interface Operands {
  readonly count: number;
  readonly x: CudaActivation;
  readonly weight: CudaMatrix;
  readonly out: bigint;
  readonly bias: bigint | null;
  readonly accumulate: boolean;
}

/**
 * Few rows, and all of f32 and i8, by kernels whose results do not depend on the rows beside; many
 * rows of bf16 by cuBLASLt.
 */
export function linear(context: CudaContext, input: LinearInput): void {
  const { count } = input;
  const weight = matrixOf(input.weight);
  const x = activationOf(input.x, count, weight.columns);
  assert(
    x.format === weight.format,
    `Cannot multiply ${x.format} rows by a matrix of ${weight.format}`,
  );
  const operands: Operands = {
    count,
    x,
    weight,
    out: tensorOf(input.out, "f32", count, weight.rows).address,
    bias: input.bias === undefined ? null : vectorOf(input.bias, "f32", weight.rows),
    accumulate: input.accumulate === true,
  };
  if (weight.format === "bf16" && count > fewRows && multiplyMany(context, operands)) return;
  multiplyFew(context, operands);
}

/** Fields of `LinearParams` in native/cuda/linear.cu. */
function multiplyFew({ kernels, launcher }: CudaContext, operands: Operands): void {
  const { count, x, weight, out, bias } = operands;
  const accumulate = operands.accumulate ? 1 : 0;
  params.fill(...x.params, ...weight.params, out, bias, count, weight.rows, accumulate);
  const { outputs, rows, threads } = LINEAR_SHAPE;
  const grid = [Math.ceil(weight.rows / outputs), Math.ceil(count / rows)] as const;
  launcher.launch(kernels[kernelOf[weight.format]], { grid, threads }, params);
}

/** False where cuBLASLt is missing or knows no way. */
function multiplyMany({ products }: CudaContext, operands: Operands): boolean {
  if (products === null) return false;
  const { count, x, weight, out, bias, accumulate } = operands;
  const inputs = Math.ceil(weight.columns / bf16Multiple) * bf16Multiple;
  return products.multiply(
    {
      rows: count,
      outputs: weight.rows,
      inputs,
      element: "bf16",
      out: "f32",
      epilogue: bias === null ? "none" : "bias",
    },
    { out, x: x.address, weight: weight.address, accumulate, ...(bias === null ? {} : { bias }) },
  );
}
