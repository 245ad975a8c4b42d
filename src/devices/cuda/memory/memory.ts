import { assert, EngineError } from "#base";
import type { CudaDriver, CudaStream } from "#devices/cuda/driver";
import type { DeviceMemory } from "../../device.ts";

/** Pinned memory that every context of the process may use. */
const portable = 1;

/** CUDA_ERROR_OUT_OF_MEMORY. */
const outOfMemory = 2;

/** Options of device memory. */
export interface CudaMemoryOptions {
  /** The value of every byte of new device memory: 0, except in tests. */
  readonly freshByte?: number;
  /** Receives one line for each allocation after `seal`. */
  readonly warn?: (message: string) => void;
}

/**
 * Memory of one device, and host memory that it can access: every region is recorded until
 * released.
 */
export class CudaMemory {
  readonly #driver: CudaDriver;
  readonly #stream: CudaStream;
  /** Whether a region is on the host, by address. Device and host share one address space. */
  readonly #regions = new Map<bigint, "device" | "host">();

  readonly #freshByte: number;
  readonly #warn: (message: string) => void;
  #sealed = false;
  #abandons = false;

  /** `stream`: the stream that fills regions. */
  constructor(driver: CudaDriver, stream: CudaStream, options: CudaMemoryOptions = {}) {
    this.#driver = driver;
    this.#stream = stream;
    this.#freshByte = options.freshByte ?? 0;
    this.#warn = options.warn ?? (() => {});
  }

  /** Device allocations from now on cause warnings: they should have been made before. */
  seal(): void {
    this.#sealed = true;
  }

  /**
   * Zero-filled, aligned to 256 bytes. `what` is named in the OUT_OF_MEMORY error. An allocation
   * stops the device, so it must stay out of the step path.
   */
  allocate(bytes: number, what: string): bigint {
    if (this.#sealed) {
      this.#warn(
        `${bytes} bytes of GPU memory are allocated while steps run: ${what}; please report it`,
      );
    }
    const address = this.#take("device", bytes, what);
    this.fill(address, bytes, this.#freshByte);
    return address;
  }

  /**
   * Pinned host memory, contents undefined: copies to and from it run concurrently with other work.
   */
  allocateHost(bytes: number, what: string): bigint {
    return this.#take("host", bytes, what);
  }

  /** Enqueues setting every byte. */
  fill(address: bigint, bytes: number, value: number): void {
    if (bytes === 0) return;
    this.#driver.run("cuMemsetD8Async", address, value, bytes, this.#stream.handle);
  }

  /** Waits for the device before freeing the memory: enqueued work may still use it. */
  release(address: bigint): void {
    const kind = this.#regions.get(address);
    assert(kind !== undefined, "Cannot release memory: not allocated by this device");
    this.#regions.delete(address);
    this.#free(address, kind);
  }

  /** Keeps a region as long as the process lives: a hanging read may still write to it. */
  abandon(address: bigint): void {
    assert(this.#regions.delete(address), "Cannot abandon memory: not allocated by this device");
    this.#abandons = true;
  }

  /** Whether a region was abandoned; a host region lives no longer than its context. */
  get abandons(): boolean {
    return this.#abandons;
  }

  /** The GPU's total and free memory. */
  size(): DeviceMemory {
    const free = new BigUint64Array(1);
    const total = new BigUint64Array(1);
    this.#driver.run("cuMemGetInfo", free, total);
    return { totalBytes: Number(total[0] ?? 0n), availableBytes: Number(free[0] ?? 0n) };
  }

  /** Releases all regions except abandoned ones. */
  dispose(): void {
    for (const [address, kind] of this.#regions) this.#free(address, kind);
    this.#regions.clear();
  }

  #take(kind: "device" | "host", bytes: number, what: string): bigint {
    assert(Number.isSafeInteger(bytes) && bytes >= 0, `Cannot allocate ${bytes} bytes`);
    // A graph would capture the allocation and repeat its fill at each launch.
    assert(!this.#stream.capturing, `Cannot allocate ${what} inside a graph`);
    const out = new BigUint64Array(1);
    // A region of no bytes still has an address of its own.
    const size = Math.max(bytes, 1);
    const call = kind === "device" ? "cuMemAlloc" : "cuMemHostAlloc";
    const status =
      kind === "device"
        ? this.#driver.calls.cuMemAlloc(out, size)
        : this.#driver.calls.cuMemHostAlloc(out, size, portable);
    if (status === outOfMemory) throw this.#tooLarge(kind, bytes, what);
    this.#driver.check(call, status);
    const address = out[0] ?? 0n;
    this.#regions.set(address, kind);
    return address;
  }

  #tooLarge(kind: "device" | "host", bytes: number, what: string): EngineError {
    const { availableBytes } = this.size();
    const [place, remedy] =
      kind === "device"
        ? [`the GPU has ${availableBytes} free`, "end other processes on it, or ask for less"]
        : [
            "the system cannot pin that much",
            "use fewer host blocks (hostCacheBytes, --host-cache-bytes)",
          ];
    return new EngineError(
      "OUT_OF_MEMORY",
      `Cannot allocate ${what}: ${bytes} bytes wanted, ${place}; ${remedy}`,
    );
  }

  #free(address: bigint, kind: "device" | "host"): void {
    // cuMemFree waits for the device by itself; pinned memory must not be freed during a copy.
    if (kind === "host") this.#driver.run("cuCtxSynchronize");
    this.#driver.run(kind === "device" ? "cuMemFree" : "cuMemFreeHost", address);
  }
}
