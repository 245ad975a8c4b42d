import type { CudaDriver } from "./driver.ts";
import type { CudaEvent } from "./event.ts";
import { CudaGraph } from "./graph.ts";

/** Streams that do not wait for the default stream, which is never used here. */
const nonBlocking = 1;
/** A capture restricts this thread's calls only: other threads may load models meanwhile. */
const captureThreadLocal = 1;
const notReady = 600;

/** Work that the GPU does in order. */
export class CudaStream {
  readonly handle: bigint;
  readonly #driver: CudaDriver;
  #capturing = false;

  /** `priority`: 0, or below for a stream whose blocks are scheduled first. */
  constructor(driver: CudaDriver, priority = 0) {
    const out = new BigUint64Array(1);
    driver.run("cuStreamCreateWithPriority", out, nonBlocking, priority);
    this.handle = out[0] ?? 0n;
    this.#driver = driver;
  }

  /**
   * Whether calls are being captured into a graph, so that no code may depend on their completion.
   */
  get capturing(): boolean {
    return this.#capturing;
  }

  /** Blocks this thread until all work is done; errors of kernels surface here at the latest. */
  synchronize(): void {
    this.#driver.run("cuStreamSynchronize", this.handle);
  }

  /** Whether all work is done. */
  isIdle(): boolean {
    const status = this.#driver.calls.cuStreamQuery(this.handle);
    if (status === notReady) return false;
    this.#driver.check("cuStreamQuery", status);
    return true;
  }

  /** Work enqueued from now on starts after `event`, of any stream. */
  waitFor(event: CudaEvent): void {
    this.#driver.run("cuStreamWaitEvent", this.handle, event.handle, 0);
  }

  /**
   * Runs `enqueue` and captures its work instead of doing it. It may neither allocate nor wait. A
   * capture that throws leaves the stream usable.
   */
  capture(enqueue: () => void): CudaGraph {
    this.#driver.run("cuStreamBeginCapture", this.handle, captureThreadLocal);
    this.#capturing = true;
    try {
      enqueue();
    } catch (error) {
      // Ends the capture whatever its state; the first error is the one to report.
      const abandoned = new BigUint64Array(1);
      this.#driver.calls.cuStreamEndCapture(this.handle, abandoned);
      if (abandoned[0]) this.#driver.calls.cuGraphDestroy(abandoned[0]);
      throw error;
    } finally {
      this.#capturing = false;
    }
    const out = new BigUint64Array(1);
    this.#driver.run("cuStreamEndCapture", this.handle, out);
    return new CudaGraph(this.#driver, out[0] ?? 0n);
  }

  destroy(): void {
    this.#driver.run("cuStreamDestroy", this.handle);
  }
}
