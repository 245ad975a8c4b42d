/**
 * GEMM of rows with a transposed matrix, out = act(x . weight^T + bias), by cuBLASLt.
 *
 * T rows of x · K columns of x and of the weight · N rows of the weight
 *
 * cuBLASLt is column-major: a row-major [T, N] is its [N, T]. So the weight is its A,
 * transposed; x is its B; and the bias runs along its rows, as its epilogue requires.
 */
import { assert } from "#base";
import { CUBLAS_NOT_SUPPORTED, cublasError } from "#devices/cuda/driver";
import type { CublasLt } from "./cublaslt.ts";

/** Elements that cuBLASLt multiplies: fp8 is e4m3, whose scales are in device memory. */
export type MatmulElement = "f32" | "f16" | "bf16" | "fp8";

/** Operations after the GEMM. gelu-tanh is cuBLASLt's only GELU. */
export type MatmulEpilogue =
  | "none"
  | "bias"
  | "relu"
  | "relu-bias"
  | "gelu-tanh"
  | "gelu-tanh-bias";

/** Sizes and types of one GEMM. */
export interface MatmulShape {
  /** T, N and K. */
  readonly rows: number;
  readonly outputs: number;
  readonly inputs: number;
  /** Of x and of the weight. f32 is multiplied as f32, never as tf32. */
  readonly element: MatmulElement;
  readonly out: "f32" | "f16" | "bf16";
  readonly epilogue?: MatmulEpilogue;
  /** Elements from one row to the next; without padding by default. */
  readonly xStride?: number;
  readonly weightStride?: number;
  readonly outStride?: number;
}

/** Device addresses of one GEMM. */
export interface MatmulOperands {
  readonly out: bigint;
  readonly x: bigint;
  readonly weight: bigint;
  /** [N], of the type of `out`; needed by epilogues with a bias. */
  readonly bias?: bigint;
  /** [1] f32 each: the scales that fp8 numbers are multiplied by. */
  readonly xScale?: bigint;
  readonly weightScale?: bigint;
  /** Adds to `out` instead of overwriting it. */
  readonly accumulate?: boolean;
}

/** One of cuBLASLt's algorithms for a shape, fastest first by its own estimate. */
export interface MatmulAlgorithm {
  /** cublasLtMatmulAlgo_t, opaque. */
  readonly code: ArrayBuffer;
  readonly workspaceBytes: number;
}

/** Parameters of one launch besides the operands. */
export interface MatmulLaunch {
  readonly handle: bigint;
  readonly algorithm: MatmulAlgorithm;
  /** At least `algorithm.workspaceBytes`, used by one GEMM at a time. */
  readonly workspace: bigint;
  readonly stream: bigint;
}

/** cudaDataType. */
const types = { f32: 0, f16: 2, bf16: 14, fp8: 28 } as const;
/** cublasComputeType_t: f32 operands are not rounded (no tf32), all sums are f32. */
const computeF32 = 68;
/** cublasLtEpilogue_t. */
const epilogues: Readonly<Record<MatmulEpilogue, number>> = {
  none: 1,
  relu: 2,
  bias: 4,
  "relu-bias": 6,
  "gelu-tanh": 32,
  "gelu-tanh-bias": 36,
};
/** cublasLtMatmulDescAttributes_t. */
const attributes = { transA: 3, epilogue: 7, bias: 8, aScale: 17, bScale: 18 } as const;
/** CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES. */
const workspacePreference = 1;
const transposed = 1;

/** cublasLtMatmulHeuristicResult_t: algorithm (64), workspace (8), state (4), waves, reserved. */
const resultBytes = 96;
/** Of cublasLtMatmulAlgo_t. */
export const ALGORITHM_BYTES = 64;
const stateOffset = ALGORITHM_BYTES + 8;

const one = new Float32Array([1]);
const zero = new Float32Array([0]);

/** One GEMM shape. Creating it costs microseconds; keep it for as long as the shape is used. */
export class Matmul {
  readonly shape: MatmulShape;
  readonly #cublas: CublasLt;
  readonly #description: bigint;
  readonly #weight: bigint;
  readonly #x: bigint;
  readonly #out: bigint;

  constructor(cublas: CublasLt, shape: MatmulShape) {
    const { rows, outputs, inputs, element } = shape;
    const layout = (type: number, columns: number, stride: number | undefined, count: number) =>
      cublas.create("cublasLtMatrixLayoutCreate", type, columns, count, stride ?? columns);
    this.shape = shape;
    this.#cublas = cublas;
    this.#description = cublas.create("cublasLtMatmulDescCreate", computeF32, types.f32);
    this.#weight = layout(types[element], inputs, shape.weightStride, outputs);
    this.#x = layout(types[element], inputs, shape.xStride, rows);
    this.#out = layout(types[shape.out], outputs, shape.outStride, rows);
    this.#set(attributes.transA, new Int32Array([transposed]));
    this.#set(attributes.epilogue, new Int32Array([epilogues[shape.epilogue ?? "none"]]));
  }

  /**
   * The best `countMax` algorithms with at most `workspaceBytesMax`; none where there is no
   * algorithm.
   */
  algorithms(handle: bigint, workspaceBytesMax: number, countMax = 1): readonly MatmulAlgorithm[] {
    const preference = this.#cublas.create("cublasLtMatmulPreferenceCreate");
    const limit = new BigUint64Array([BigInt(workspaceBytesMax)]);
    const results = new ArrayBuffer(resultBytes * countMax);
    const found = new Int32Array(1);
    try {
      const set = "cublasLtMatmulPreferenceSetAttribute";
      this.#cublas.run(set, preference, workspacePreference, limit, limit.byteLength);
      const status = this.#cublas.status(
        "cublasLtMatmulAlgoGetHeuristic",
        handle,
        this.#description,
        this.#weight,
        this.#x,
        this.#out,
        this.#out,
        preference,
        countMax,
        results,
        found,
      );
      if (status === CUBLAS_NOT_SUPPORTED) return [];
      if (status !== 0) throw cublasError("cublasLtMatmulAlgoGetHeuristic", status);
    } finally {
      this.#cublas.run("cublasLtMatmulPreferenceDestroy", preference);
    }
    const count = found[0] ?? 0;
    return Array.from({ length: count }, (_, i) => i)
      .filter((i) => isUsable(results, i))
      .map((i) => readResult(results, i));
  }

  /**
   * An algorithm that was found for other rows, or by another process: with the workspace that it
   * needs here, or null where it cannot compute this shape.
   */
  accepted(
    handle: bigint,
    algorithm: MatmulAlgorithm,
    workspaceBytesMax: number,
  ): MatmulAlgorithm | null {
    const result = new ArrayBuffer(resultBytes);
    const status = this.#cublas.status(
      "cublasLtMatmulAlgoCheck",
      handle,
      this.#description,
      this.#weight,
      this.#x,
      this.#out,
      this.#out,
      algorithm.code,
      result,
    );
    if (status !== 0 || !isUsable(result, 0)) return null;
    // The check fills in its findings, and not always the algorithm.
    const { workspaceBytes } = readResult(result, 0);
    return workspaceBytes <= workspaceBytesMax ? { code: algorithm.code, workspaceBytes } : null;
  }

  /** Enqueues the GEMM. */
  run(operands: MatmulOperands, launch: MatmulLaunch): void {
    const status = this.#enqueue(operands, launch);
    if (status !== 0) throw cublasError("cublasLtMatmul", status);
  }

  /** The same; false where the algorithm cannot compute it after all. */
  tryRun(operands: MatmulOperands, launch: MatmulLaunch): boolean {
    return this.#enqueue(operands, launch) === 0;
  }

  destroy(): void {
    this.#cublas.run("cublasLtMatmulDescDestroy", this.#description);
    for (const layout of [this.#weight, this.#x, this.#out]) {
      this.#cublas.run("cublasLtMatrixLayoutDestroy", layout);
    }
  }

  #enqueue(operands: MatmulOperands, launch: MatmulLaunch): number {
    const { handle, algorithm, workspace, stream } = launch;
    const { out, x, weight, bias, xScale, weightScale, accumulate } = operands;
    const wantsBias = (this.shape.epilogue ?? "none").endsWith("bias");
    assert(wantsBias === (bias !== undefined), "Cannot multiply: a bias and its epilogue wanted");
    if (bias !== undefined) this.#setAddress(attributes.bias, bias);
    if (weightScale !== undefined) this.#setAddress(attributes.aScale, weightScale);
    if (xScale !== undefined) this.#setAddress(attributes.bScale, xScale);
    return this.#cublas.status(
      "cublasLtMatmul",
      handle,
      this.#description,
      one,
      weight,
      this.#weight,
      x,
      this.#x,
      accumulate === true ? one : zero,
      out,
      this.#out,
      out,
      this.#out,
      algorithm.code,
      workspace,
      algorithm.workspaceBytes,
      stream,
    );
  }

  #setAddress(attribute: number, address: bigint): void {
    this.#set(attribute, new BigUint64Array([address]));
  }

  #set(attribute: number, value: Int32Array | BigUint64Array): void {
    const call = "cublasLtMatmulDescSetAttribute";
    this.#cublas.run(call, this.#description, attribute, value, value.byteLength);
  }
}

/** Whether one result's status is success. */
function isUsable(results: ArrayBuffer, index: number): boolean {
  return new DataView(results).getInt32(index * resultBytes + stateOffset, true) === 0;
}

function readResult(results: ArrayBuffer, index: number): MatmulAlgorithm {
  const start = index * resultBytes;
  const workspace = new DataView(results).getBigUint64(start + ALGORITHM_BYTES, true);
  return {
    code: results.slice(start, start + ALGORITHM_BYTES),
    workspaceBytes: Number(workspace),
  };
}
