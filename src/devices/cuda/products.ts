import type { CublasLt } from "./cublaslt.ts";
import { Matmul, type MatmulAlgorithm, type MatmulOperands, type MatmulShape } from "./matmul.ts";
import type { CudaMemory } from "./memory.ts";
import type { CudaStream } from "./stream.ts";

/** What cuBLAS's own documentation recommends for Hopper and later. */
const workspaceBytes = 32 << 20;

/** Shapes that are kept: row counts differ from step to step, the rest is the model's. */
const shapesMax = 1024;

/** A shape, and the way that is used for it; null where cuBLASLt knows none. */
interface Planned {
  readonly matmul: Matmul;
  readonly algorithm: MatmulAlgorithm | null;
}

/** Matrix products by cuBLASLt, on one stream. */
export class Products {
  readonly #cublas: CublasLt;
  readonly #handle: bigint;
  readonly #workspace: bigint;
  readonly #stream: CudaStream;
  /** By shape, least recently used first. */
  readonly #planned = new Map<string, Planned>();

  constructor(cublas: CublasLt, memory: CudaMemory, stream: CudaStream) {
    this.#cublas = cublas;
    this.#handle = cublas.create("cublasLtCreate");
    this.#workspace = memory.allocate(workspaceBytes, "room for matrix products");
    this.#stream = stream;
  }

  /** Enqueues a product; false where cuBLASLt knows no way to compute it, and nothing is done. */
  multiply(shape: MatmulShape, operands: MatmulOperands): boolean {
    const { matmul, algorithm } = this.#plan(shape);
    if (algorithm === null) return false;
    matmul.run(operands, {
      handle: this.#handle,
      algorithm,
      workspace: this.#workspace,
      stream: this.#stream.handle,
    });
    return true;
  }

  /** Lets go of the library's objects; the workspace is the device's memory. */
  dispose(): void {
    for (const { matmul } of this.#planned.values()) matmul.destroy();
    this.#planned.clear();
    this.#cublas.run("cublasLtDestroy", this.#handle);
  }

  #plan(shape: MatmulShape): Planned {
    const key = keyOf(shape);
    const known = this.#planned.get(key);
    if (known !== undefined) {
      this.#planned.delete(key);
      this.#planned.set(key, known);
      return known;
    }
    const matmul = new Matmul(this.#cublas, shape);
    const [algorithm = null] = matmul.algorithms(this.#handle, workspaceBytes);
    const planned = { matmul, algorithm };
    this.#planned.set(key, planned);
    this.#forgetOldest();
    return planned;
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

function keyOf(shape: MatmulShape): string {
  const { rows, outputs, inputs, element, out, epilogue } = shape;
  const strides = [shape.xStride, shape.weightStride, shape.outStride].join(" ");
  return `${rows} ${outputs} ${inputs} ${element} ${out} ${epilogue ?? "none"} ${strides}`;
}
