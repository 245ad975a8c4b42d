import type { CudaDriver } from "./driver.ts";
import type { StreamHandle } from "./stream-handle.ts";

const updateFailed = 910;

/** The result of a capture: a template that is instantiated, or that updates a runnable graph. */
export class CudaGraph {
  readonly handle: bigint;
  readonly #driver: CudaDriver;

  constructor(driver: CudaDriver, handle: bigint) {
    this.#driver = driver;
    this.handle = handle;
  }

  /** Kernels, copies and fills in it. */
  nodeCount(): number {
    const count = new BigUint64Array(1);
    this.#driver.run("cuGraphGetNodes", this.handle, null, count);
    return Number(count[0] ?? 0n);
  }

  /** Instantiates the template as it is now. */
  instantiate(): RunnableGraph {
    const out = new BigUint64Array(1);
    this.#driver.run("cuGraphInstantiate", out, this.handle, 0);
    return new RunnableGraph(this.#driver, out[0] ?? 0n);
  }

  destroy(): void {
    this.#driver.run("cuGraphDestroy", this.handle);
  }
}

/** A graph that is launched with one call, whatever is in it. */
export class RunnableGraph {
  readonly #driver: CudaDriver;
  readonly #handle: bigint;

  constructor(driver: CudaDriver, handle: bigint) {
    this.#driver = driver;
    this.#handle = handle;
  }

  /** Uploads it to the device ahead of its first launch. */
  upload(stream: StreamHandle): void {
    this.#driver.run("cuGraphUpload", this.#handle, stream.handle);
  }

  /** Enqueues everything in it. The same graph never runs twice at once. */
  launch(stream: StreamHandle): void {
    const status = this.#driver.calls.cuGraphLaunch(this.#handle, stream.handle);
    this.#driver.check("cuGraphLaunch", status);
  }

  /**
   * Takes over the parameters of a template of the same shape, without instantiating again. False
   * when the shapes differ; the graph is then unchanged.
   */
  update(graph: CudaGraph): boolean {
    // CUgraphExecUpdateResultInfo: a result and two nodes.
    const result = new BigUint64Array(3);
    const status = this.#driver.calls.cuGraphExecUpdate(this.#handle, graph.handle, result);
    if (status === updateFailed) return false;
    this.#driver.check("cuGraphExecUpdate", status);
    return true;
  }

  destroy(): void {
    this.#driver.run("cuGraphExecDestroy", this.#handle);
  }
}
