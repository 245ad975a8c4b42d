import { assert } from "#base";
import { type KernelName, KernelParams, PACKED_ROWS, type ParamKind } from "#devices/cuda/kernels";
import {
  activationOf,
  type CudaActivation,
  type CudaMatrix,
  matrixOf,
  tensorOf,
  vectorOf,
} from "#devices/cuda/memory";
import type { WeightFormat } from "../../device-data.ts";
import type { LinearInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";
import { type I8Tile, i8Launch, i8TileFor } from "./linear-i8.ts";
import { canStream, STREAM_SOURCE, streamLaunch } from "./linear-stream.ts";

/** `kBlockOutputs`, `kLinearRows` and threads of a block in native/cuda/linear-rows.h. */
export const LINEAR_SHAPE = { outputs: 16, rows: 8, threads: 256 } as const;

/** Outputs of a block and most rows of the kernels in native/cuda/linear-few.cu: before Hopper. */
const few = { outputs: 16, rows: 16, threads: 256 } as const;

/**
 * Most rows of i8 for the kernel that reads the matrix once per 8 of them: it has four times as
 * many blocks, and wastes no row of a tile. The two give the same bits.
 */
export const I8_ROWS_MAX = 16;

/** Outputs and rows of a block of native/cuda/linear-f32.cu, which reads 4 columns at a time. */
const manyF32 = { outputs: 64, rows: 64, threads: 256, columns: 4 } as const;

/** Most rows of f32 for the kernel that reads the matrix once per 8 of them; bits are the same. */
const F32_ROWS_MAX = 16;

/** Elements in 16 bytes of bf16: rows are padded with zeros to a multiple of it. */
const bf16Multiple = 8;

const kernelOf: Readonly<Record<Exclude<WeightFormat, "q8">, KernelName>> = {
  f32: "linear_f32",
  bf16: "linear_bf16",
  i8: "linear_i8",
};

/** Fields of `LinearParams` in native/cuda/linear-params.h. */
const LINEAR: readonly ParamKind[] = [
  ...PACKED_ROWS,
  ...PACKED_ROWS,
  ...(["pointer", "pointer", "i32", "i32", "i32"] as const),
];

const params = new KernelParams(LINEAR);
/** `LinearStreamParams` of native/cuda/linear-stream.cu, which ends at a multiple of 64 bytes. */
const streamParams = new KernelParams([...STREAM_SOURCE, ...LINEAR], 16);

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
 * bf16: few rows by a kernel that reads each weight once, more by cuBLASLt. f32 and i8: by kernels
 * whose results do not depend on the other rows; many rows by tiles, of i8 on tensor cores, also
 * exactly.
 */
export function linear(context: CudaContext, input: LinearInput): void {
  const operands = operandsOf(input);
  const { count, weight } = operands;
  const tile = manyI8Tile(context, operands);
  if (tile !== null) multiplyManyI8(context, operands, tile);
  else if (areManyF32(operands)) multiplyManyF32(context, operands);
  else if (weight.format !== "bf16") multiplyRows(context, operands);
  else if (canStream(context, count)) multiplyStream(context, operands);
  else if (count <= few.rows) multiplyFew(context, operands);
  else if (!multiplyMany(context, operands)) multiplyRows(context, operands);
}

/** The same for i8, by the given kernel; null: the one for few rows. */
export function linearI8(context: CudaContext, input: LinearInput, tile: I8Tile | null): void {
  const operands = operandsOf(input);
  if (tile === null) multiplyRows(context, operands);
  else multiplyManyI8(context, operands, tile);
}

function operandsOf(input: LinearInput): Operands {
  const { count } = input;
  const weight = matrixOf(input.weight);
  const x = activationOf(input.x, count, weight.columns);
  assert(
    x.format === weight.format,
    `Cannot multiply ${x.format} rows by a matrix of ${weight.format}`,
  );
  return {
    count,
    x,
    weight,
    out: tensorOf(input.out, "f32", count, weight.rows).address,
    bias: input.bias === undefined ? null : vectorOf(input.bias, "f32", weight.rows),
    accumulate: input.accumulate === true,
  };
}

/** Values of `LINEAR`. */
function fieldsOf({ count, x, weight, out, bias, accumulate }: Operands) {
  const flags = [count, weight.rows, accumulate ? 1 : 0] as const;
  return [...x.params, ...weight.params, out, bias, ...flags] as const;
}

function multiplyStream(context: CudaContext, operands: Operands): void {
  const { count, x, weight } = operands;
  const work = { op: "linear_stream", count, x, weight, gated: false } as const;
  const { kernel, shape, source } = streamLaunch(context, work);
  streamParams.fill(...source, ...fieldsOf(operands));
  context.launcher.launch(kernel, shape, streamParams);
}

function multiplyFew({ kernels, launcher }: CudaContext, operands: Operands): void {
  const { count, weight } = operands;
  const kernel = count <= few.rows / 2 ? kernels.linear_few_8 : kernels.linear_few_16;
  const grid = count === 0 ? 0 : Math.ceil(weight.rows / few.outputs);
  launcher.launch(
    kernel,
    { grid: [grid], threads: few.threads },
    params.fill(...fieldsOf(operands)),
  );
}

function multiplyRows({ kernels, launcher }: CudaContext, operands: Operands): void {
  const { count, weight } = operands;
  const { outputs, rows, threads } = LINEAR_SHAPE;
  const grid = [Math.ceil(weight.rows / outputs), Math.ceil(count / rows)] as const;
  assert(weight.format !== "q8", "Cannot multiply q8 rows on cuda");
  launcher.launch(
    kernels[kernelOf[weight.format]],
    { grid, threads },
    params.fill(...fieldsOf(operands)),
  );
}

function areManyF32({ count, weight }: Operands): boolean {
  return weight.format === "f32" && count > F32_ROWS_MAX && weight.columns % manyF32.columns === 0;
}

function multiplyManyF32({ kernels, launcher }: CudaContext, operands: Operands): void {
  const { count, weight } = operands;
  const { outputs, rows, threads } = manyF32;
  const grid = [Math.ceil(weight.rows / outputs), Math.ceil(count / rows)] as const;
  launcher.launch(kernels.linear_f32_many, { grid, threads }, params.fill(...fieldsOf(operands)));
}

/** Null where rows are few, or not of i8, or the GPU has too little shared memory. */
function manyI8Tile({ gpu }: CudaContext, { count, weight }: Operands): I8Tile | null {
  if (weight.format !== "i8" || count <= I8_ROWS_MAX) return null;
  return i8TileFor(gpu, { count, outputs: weight.rows });
}

function multiplyManyI8(context: CudaContext, operands: Operands, tile: I8Tile): void {
  const { count, weight } = operands;
  const { kernel, shape } = i8Launch(context, tile, { count, outputs: weight.rows });
  context.launcher.launch(kernel, shape, params.fill(...fieldsOf(operands)));
}

/** False where cuBLASLt is missing or has no algorithm. */
function multiplyMany({ products }: CudaContext, operands: Operands): boolean {
  if (products === null) return false;
  const { count, x, weight, out, bias, accumulate } = operands;
  return products.multiply(
    { ...productShape(count, weight), out: "f32", epilogue: bias === null ? "none" : "bias" },
    { out, x: x.address, weight: weight.address, accumulate, ...(bias === null ? {} : { bias }) },
  );
}

/** Sizes of a cuBLASLt GEMM of bf16 rows, with their padding. */
export function productShape(rows: number, weight: CudaMatrix) {
  const inputs = Math.ceil(weight.columns / bf16Multiple) * bf16Multiple;
  return { rows, outputs: weight.rows, inputs, element: "bf16" } as const;
}
