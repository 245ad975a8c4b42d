import type { CudaDriver } from "./driver.ts";
import type { StreamHandle } from "./stream-handle.ts";

const timed = 0;
const untimed = 2;
const notReady = 600;

/** A place in a stream that other streams and threads can wait for. */
export class CudaEvent {
  readonly handle: bigint;
  readonly #driver: CudaDriver;

  /** `timing`: whether `elapsedMs` will be called; recording is cheaper without. */
  constructor(driver: CudaDriver, timing = false) {
    const out = new BigUint64Array(1);
    driver.run("cuEventCreate", out, timing ? timed : untimed);
    this.handle = out[0] ?? 0n;
    this.#driver = driver;
  }

  /** Moves the event behind all that is in `stream` now. */
  record(stream: StreamHandle): void {
    this.#driver.run("cuEventRecord", this.handle, stream.handle);
  }

  /** Whether everything before it is done; true for an event that was never recorded. */
  isDone(): boolean {
    const status = this.#driver.calls.cuEventQuery(this.handle);
    if (status === notReady) return false;
    this.#driver.check("cuEventQuery", status);
    return true;
  }

  /** Blocks this thread until everything before it is done. */
  wait(): void {
    this.#driver.run("cuEventSynchronize", this.handle);
  }

  /** Milliseconds from `start` to this; both timed and done. */
  elapsedMs(start: CudaEvent): number {
    const out = new Float32Array(1);
    this.#driver.run("cuEventElapsedTime", out, start.handle, this.handle);
    return out[0] ?? 0;
  }

  destroy(): void {
    this.#driver.run("cuEventDestroy", this.handle);
  }
}
