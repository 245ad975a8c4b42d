import { EngineError } from "#base";
import type { CudaDriver, CudaStream, Gpu } from "#devices/cuda/driver";
import { fastest } from "#devices/cuda/graphs";
import { STREAM_ROWS_MAX } from "#devices/cuda/kernels";
import type { CudaMemory } from "#devices/cuda/memory";
import type { CublasLt } from "./cublaslt.ts";
import { Matmul, type MatmulAlgorithm, type MatmulOperands, type MatmulShape } from "./matmul.ts";
import { ProductChoices } from "./product-choices.ts";

/** The size that cuBLAS's documentation recommends for Hopper and later. */
const workspaceBytes = 32 << 20;

/** Shapes that are kept: row counts differ from step to step, the rest is fixed by the model. */
const shapesMax = 1024;

/** Algorithms that are timed: cuBLASLt's own order is an estimate. */
const candidatesMax = 8;

/** Fewest rows that are prepared for: below, the kernels of native/cuda multiply. */
const preparedRowsMin = STREAM_ROWS_MAX + 1;

/** Options of `Products`. */
export interface ProductsOptions {
  readonly cublas: CublasLt;
  readonly driver: CudaDriver;
  readonly gpu: Gpu;
  readonly memory: CudaMemory;
  readonly stream: CudaStream;
  /** Folder of the choices, which only this user writes to; null: choices are not stored. */
  readonly folder: string | null;
}

/** A shape and its algorithm; null where cuBLASLt has none. */
interface Planned {
  readonly matmul: Matmul;
  algorithm: MatmulAlgorithm | null;
  /** The algorithm was chosen by timing, or there is no choice. */
  settled: boolean;
}

/**
 * GEMMs by cuBLASLt, on one stream. At a GEMM's first use outside a capture the best of its
 * algorithms are timed, on the current operands. One choice serves a bucket of row counts, so that
 * ragged steps are not timed each, and the buckets of fewer rows are timed with it: a step of the
 * largest size at start leaves nothing to be timed later. A persistent kernel of this project,
 * tiles of 128 outputs by clusters of two blocks, took 1.4 to 2.4 times as long for 17 to 512 rows
 * of the linears of llama-3.1-8b (one H200), and is not here.
 */
export class Products {
  readonly #options: ProductsOptions;
  readonly #handle: bigint;
  readonly #workspace: bigint;
  readonly #choices: ProductChoices;
  /** By shape, least recently used first. */
  readonly #planned = new Map<string, Planned>();

  constructor(options: ProductsOptions) {
    const { cublas, driver, gpu, memory, folder } = options;
    this.#options = options;
    this.#handle = cublas.create("cublasLtCreate");
    this.#workspace = memory.allocate(workspaceBytes, "workspace of GEMMs");
    const [cublasVersion, driverVersion] = [cublas.version, driver.version];
    this.#choices = new ProductChoices(folder, { gpu: gpu.name, cublasVersion, driverVersion });
  }

  /** Enqueues a GEMM; false, and nothing is enqueued, where cuBLASLt has no algorithm for it. */
  multiply(shape: MatmulShape, operands: MatmulOperands): boolean {
    const planned = this.#plan(shape);
    if (!planned.settled && !this.#options.stream.capturing) this.#settle(planned, operands);
    const { matmul, algorithm } = planned;
    if (algorithm === null) return false;
    matmul.run(operands, this.#launchOf(algorithm));
    return true;
  }

  /** Destroys the library's objects; the workspace is the device's memory. */
  dispose(): void {
    for (const { matmul } of this.#planned.values()) matmul.destroy();
    this.#planned.clear();
    this.#options.cublas.run("cublasLtDestroy", this.#handle);
  }

  #plan(shape: MatmulShape): Planned {
    const key = `${shape.rows} ${keyOf(shape)}`;
    const known = this.#planned.get(key);
    if (known !== undefined) {
      this.#planned.delete(key);
      this.#planned.set(key, known);
      return known;
    }
    const matmul = new Matmul(this.#options.cublas, shape);
    const planned = { matmul, ...this.#firstChoice(matmul) };
    this.#planned.set(key, planned);
    this.#forgetOldest();
    return planned;
  }

  /** The bucket's timed algorithm, if cuBLASLt accepts it for these rows; else its estimate. */
  #firstChoice(matmul: Matmul): { algorithm: MatmulAlgorithm | null; settled: boolean } {
    const chosen = this.#choices.find(choiceKey(matmul.shape));
    const accepted = chosen === null ? null : matmul.accepted(this.#handle, chosen, workspaceBytes);
    if (accepted !== null) return { algorithm: accepted, settled: true };
    const [algorithm = null] = matmul.algorithms(this.#handle, workspaceBytes);
    return { algorithm, settled: algorithm === null || chosen !== null };
  }

  /** Times the algorithms of a GEMM that is not settled, and of fewer rows of it. */
  #settle(planned: Planned, operands: MatmulOperands): void {
    planned.settled = true;
    const { matmul } = planned;
    this.#withRoom(matmul.shape, operands, (room) => {
      for (const rows of bucketsBelow(matmul.shape.rows)) {
        const fewer = new Matmul(this.#options.cublas, { ...matmul.shape, rows });
        if (this.#choices.find(choiceKey(fewer.shape)) === null) this.#time(fewer, room);
        fewer.destroy();
      }
      planned.algorithm = this.#time(matmul, room) ?? planned.algorithm;
    });
  }

  /** The fastest algorithm, which is stored; null: none can run. */
  #time(matmul: Matmul, operands: MatmulOperands): MatmulAlgorithm | null {
    const { driver, stream } = this.#options;
    const ways = matmul.algorithms(this.#handle, workspaceBytes, candidatesMax);
    const run = (way: MatmulAlgorithm) => matmul.tryRun(operands, this.#launchOf(way));
    const best = fastest(driver, stream, ways, run);
    if (best !== null) this.#choices.keep(choiceKey(matmul.shape), best);
    return best;
  }

  /** Operands that can be multiplied repeatedly: accumulating sums go to separate memory. */
  #withRoom(
    shape: MatmulShape,
    operands: MatmulOperands,
    run: (operands: MatmulOperands) => void,
  ): void {
    if (operands.accumulate !== true) {
      run(operands);
      return;
    }
    const { memory } = this.#options;
    try {
      const bytes = shape.rows * (shape.outStride ?? shape.outputs) * 4;
      const out = memory.allocate(bytes, "buffers for timing a GEMM");
      run({ ...operands, out, accumulate: false });
      memory.release(out);
    } catch (error) {
      // The estimate is used where memory is full.
      if (!(error instanceof EngineError) || error.code !== "OUT_OF_MEMORY") throw error;
    }
  }

  #launchOf(algorithm: MatmulAlgorithm) {
    const stream = this.#options.stream.handle;
    return { handle: this.#handle, algorithm, workspace: this.#workspace, stream };
  }

  #forgetOldest(): void {
    if (this.#planned.size <= shapesMax) return;
    const [oldest] = this.#planned;
    if (oldest === undefined) return;
    const [key, { matmul }] = oldest;
    matmul.destroy();
    this.#planned.delete(key);
  }
}

/** Everything but the rows. */
function keyOf(shape: MatmulShape): string {
  const { outputs, inputs, element, out, epilogue } = shape;
  const strides = [shape.xStride, shape.weightStride, shape.outStride].map((each) => each ?? "-");
  return `${outputs} ${inputs} ${element} ${out} ${epilogue ?? "none"} ${strides.join(" ")}`;
}

function choiceKey(shape: MatmulShape): string {
  return `${bucketOf(shape.rows)} ${keyOf(shape)}`;
}

/** The least 2^i or 1.5 * 2^i that is no less than `rows`. */
export function bucketOf(rows: number): number {
  const power = 2 ** Math.ceil(Math.log2(Math.max(rows, 1)));
  const between = power * 0.75;
  return Number.isInteger(between) && rows <= between ? between : power;
}

/** Each bucket of fewer than `rows` rows that is left to cuBLASLt. */
function bucketsBelow(rows: number): number[] {
  const buckets = [];
  for (let each = bucketOf(preparedRowsMin); each < rows; each = bucketOf(each + 1)) {
    if (each !== bucketOf(rows)) buckets.push(each);
  }
  return buckets;
}
