import { EngineError } from "#base";
import type { CublasLt } from "./cublaslt.ts";
import type { CudaDriver } from "./driver.ts";
import { fastest } from "./fastest.ts";
import type { Gpu } from "./gpu.ts";
import { STREAM_ROWS_MAX } from "./linear-stream.ts";
import { Matmul, type MatmulAlgorithm, type MatmulOperands, type MatmulShape } from "./matmul.ts";
import type { CudaMemory } from "./memory.ts";
import { ProductChoices, type ProductWay } from "./product-choices.ts";
import type { CudaStream } from "./stream.ts";

/** What cuBLAS's own documentation recommends for Hopper and later. */
const workspaceBytes = 32 << 20;

/** Shapes that are kept: row counts differ from step to step, the rest is the model's. */
const shapesMax = 1024;

/** Ways that are timed: cuBLASLt's own order is by an estimate. */
const candidatesMax = 8;

/** Fewest rows that are prepared for: below, kernels of our own multiply. */
const preparedRowsMin = STREAM_ROWS_MAX + 1;

/** Most rows that the device's own kernel multiplies where nothing was timed. */
const ownRowsMax = 128;

/**
 * What a step loses by a product of cuBLASLt beyond its own time, since it starts when all before
 * it is done and lets nothing start ahead: of a step of llama-3.1-8B with 129 of them, 0.325 ms
 * were between kernels (64 sequences, one H200).
 */
const lateStartMs = 0.0025;

/** What products need. */
export interface ProductsOptions {
  readonly cublas: CublasLt;
  readonly driver: CudaDriver;
  readonly gpu: Gpu;
  readonly memory: CudaMemory;
  readonly stream: CudaStream;
  /** Where choices are kept: one that only this user writes to; null: nowhere. */
  readonly folder: string | null;
}

/** A kernel of the device's own, and what else a product takes that cuBLASLt computes. */
export interface OwnProduct {
  /** Of the kernel. */
  readonly name: string;
  /** Whether it can compute a product of so many rows. */
  takes(rows: number): boolean;
  /** Enqueues the product, and all that follows it. */
  run(rows: number, operands: MatmulOperands): void;
  /** Enqueues what follows a product by cuBLASLt. */
  follow?(rows: number): void;
}

/** A product, and a way to compute it. */
interface OneWay {
  readonly matmul: Matmul;
  readonly way: ProductWay;
  readonly own: OwnProduct | null;
}

/** A shape, and the way that is used for it; null where there is none. */
interface Planned {
  readonly matmul: Matmul;
  way: ProductWay | null;
  /** The way was chosen by timing, or there is nothing to choose. */
  settled: boolean;
}

/**
 * Matrix products by cuBLASLt or by the device's own kernels, on one stream. At a product's first
 * use outside a capture the best of its ways are timed, on the operands that there are. One choice
 * serves a bucket of row counts, so that ragged steps are not timed each, and the buckets of fewer
 * rows are timed with it: a step of the largest size at start leaves nothing to be timed later.
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
    this.#workspace = memory.allocate(workspaceBytes, "room for matrix products");
    const [cublasVersion, driverVersion] = [cublas.version, driver.version];
    this.#choices = new ProductChoices(folder, { gpu: gpu.name, cublasVersion, driverVersion });
  }

  /**
   * Enqueues a product by cuBLASLt, or by `own` where that is faster, and what follows it; false
   * where neither can compute it, and nothing is done.
   */
  multiply(shape: MatmulShape, operands: MatmulOperands, own: OwnProduct | null = null): boolean {
    const planned = this.#plan(shape, own);
    if (!planned.settled && !this.#options.stream.capturing) this.#settle(planned, operands, own);
    const { matmul, way } = planned;
    if (way === null) return false;
    if (way === "own") {
      own?.run(shape.rows, operands);
    } else {
      matmul.run(operands, this.#launchOf(way));
      own?.follow?.(shape.rows);
    }
    return true;
  }

  /** Lets go of the library's objects; the workspace is the device's memory. */
  dispose(): void {
    for (const { matmul } of this.#planned.values()) matmul.destroy();
    this.#planned.clear();
    this.#options.cublas.run("cublasLtDestroy", this.#handle);
  }

  #plan(shape: MatmulShape, own: OwnProduct | null): Planned {
    const key = `${shape.rows} ${keyOf(shape)}${own === null ? "" : ` ${own.name}`}`;
    const known = this.#planned.get(key);
    if (known !== undefined) {
      this.#planned.delete(key);
      this.#planned.set(key, known);
      return known;
    }
    const matmul = new Matmul(this.#options.cublas, shape);
    const planned = { matmul, ...this.#firstChoice(matmul, own) };
    this.#planned.set(key, planned);
    this.#forgetOldest();
    return planned;
  }

  /** What was timed for the bucket, if these rows can be computed so; else a guess. */
  #firstChoice(matmul: Matmul, own: OwnProduct | null): Omit<Planned, "matmul"> {
    const isOwnAble = own?.takes(matmul.shape.rows) === true;
    const chosen = this.#choices.find(choiceKey(matmul.shape, own));
    if (chosen === "own" && isOwnAble) return { way: chosen, settled: true };
    const accepted =
      chosen === null || chosen === "own"
        ? null
        : matmul.accepted(this.#handle, chosen, workspaceBytes);
    if (accepted !== null) return { way: accepted, settled: true };
    if (isOwnAble && matmul.shape.rows <= ownRowsMax) return { way: "own", settled: false };
    const [way = isOwnAble ? "own" : null] = matmul.algorithms(this.#handle, workspaceBytes);
    return { way, settled: way === null || way === "own" || chosen !== null };
  }

  /** Times the ways of a product that is not settled, and of fewer rows of it. */
  #settle(planned: Planned, operands: MatmulOperands, own: OwnProduct | null): void {
    planned.settled = true;
    const { matmul } = planned;
    this.#withRoom(matmul.shape, operands, (room) => {
      for (const rows of bucketsBelow(matmul.shape.rows)) {
        const fewer = new Matmul(this.#options.cublas, { ...matmul.shape, rows });
        if (this.#choices.find(choiceKey(fewer.shape, own)) === null) this.#time(fewer, room, own);
        fewer.destroy();
      }
      planned.way = this.#time(matmul, room, own) ?? planned.way;
    });
  }

  /** The fastest way, which is kept; null: none can run. */
  #time(matmul: Matmul, operands: MatmulOperands, own: OwnProduct | null): ProductWay | null {
    const { driver, memory, stream } = this.#options;
    const { rows } = matmul.shape;
    const theirs = matmul.algorithms(this.#handle, workspaceBytes, candidatesMax);
    const ways: ProductWay[] = own?.takes(rows) === true ? [...theirs, "own"] : [...theirs];
    const best = fastest(driver, stream, {
      candidates: ways,
      enqueue: (way) => this.#tryWay({ matmul, way, own }, operands),
      // A step comes to a matrix when others have been read since: it is in no cache.
      prepare: () => memory.fill(this.#workspace, workspaceBytes, 0),
      handicapMs: (way) => (way === "own" ? 0 : lateStartMs),
    });
    if (best !== null) this.#choices.keep(choiceKey(matmul.shape, own), best);
    return best;
  }

  /** Enqueues a product in one way; false where it cannot compute it after all. */
  #tryWay({ matmul, way, own }: OneWay, operands: MatmulOperands): boolean {
    const { rows } = matmul.shape;
    if (way === "own") {
      own?.run(rows, operands);
    } else {
      if (!matmul.tryRun(operands, this.#launchOf(way))) return false;
      own?.follow?.(rows);
    }
    return true;
  }

  /** Operands that may be multiplied again and again: sums that grow are kept aside. */
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
      const out = memory.allocate(bytes, "room for timing a product");
      run({ ...operands, out, accumulate: false });
      memory.release(out);
    } catch (error) {
      // The estimate will do where memory is full.
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

/** A choice depends on the kernel that there is besides. */
function choiceKey(shape: MatmulShape, own: OwnProduct | null): string {
  const bucket = bucketOf(shape.rows);
  return `${bucket} ${keyOf(shape)}${own?.takes(bucket) === true ? ` or ${own.name}` : ""}`;
}

/** The least 2^i or 1.5 * 2^i that is no less than `rows`. */
export function bucketOf(rows: number): number {
  const power = 2 ** Math.ceil(Math.log2(Math.max(rows, 1)));
  const between = power * 0.75;
  return Number.isInteger(between) && rows <= between ? between : power;
}

/** Each bucket of fewer than `rows` rows that kernels of our own leave to cuBLASLt. */
function bucketsBelow(rows: number): number[] {
  const buckets = [];
  for (let each = bucketOf(preparedRowsMin); each < rows; each = bucketOf(each + 1)) {
    if (each !== bucketOf(rows)) buckets.push(each);
  }
  return buckets;
}
