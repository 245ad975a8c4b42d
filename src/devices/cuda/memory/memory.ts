import { assert, EngineError } from "#base";
import type { CudaDriver, CudaStream } from "#devices/cuda/driver";
import type { DeviceMemory } from "../../device.ts";

/** Pinned memory that every context of the process may use. */
const portable = 1;

/** CUDA_ERROR_OUT_OF_MEMORY. */
const outOfMemory = 2;

/** How memory is handed out. */
export interface CudaMemoryOptions {
  /** What every byte of new device memory is: 0, but in tests. */
  readonly freshByte?: number;
  /** Hears of what is allocated too late. */
  readonly warn?: (message: string) => void;
}

/** Memory of one device, and host memory that it reaches: every region is known until released. */
export class CudaMemory {
  readonly #driver: CudaDriver;
  readonly #stream: CudaStream;
  /** Whether a region is on the host, by address. Device and host share one address space. */
  readonly #regions = new Map<bigint, "device" | "host">();

  readonly #freshByte: number;
  readonly #warn: (message: string) => void;
  #sealed = false;
  #abandons = false;

  /** `stream`: where regions are filled. */
  constructor(driver: CudaDriver, stream: CudaStream, options: CudaMemoryOptions = {}) {
    this.#driver = driver;
    this.#stream = stream;
    this.#freshByte = options.freshByte ?? 0;
    this.#warn = options.warn ?? (() => {});
  }

  /** From now on what is allocated on the device is told of: it should have been there already. */
  seal(): void {
    this.#sealed = true;
  }

  /**
   * Zero-filled, aligned to 256 bytes. `what` is named in the OUT_OF_MEMORY error. The device stops
   * for it: not for the step path.
   */
  allocate(bytes: number, what: string): bigint {
    if (this.#sealed) {
      this.#warn(
        `${bytes} bytes of GPU memory are taken while steps run: ${what}; please report it`,
      );
    }
    const address = this.#take("device", bytes, what);
    this.fill(address, bytes, this.#freshByte);
    return address;
  }

  /** Pinned host memory, contents undefined: copies to and from it run beside everything else. */
  allocateHost(bytes: number, what: string): bigint {
    return this.#take("host", bytes, what);
  }

  /** Enqueues setting every byte. */
  fill(address: bigint, bytes: number, value: number): void {
    if (bytes === 0) return;
    this.#driver.run("cuMemsetD8Async", address, value, bytes, this.#stream.handle);
  }

  /** Waits for the device before the memory goes: work that was enqueued may still use it. */
  release(address: bigint): void {
    const kind = this.#regions.get(address);
    assert(kind !== undefined, "Cannot release memory: not allocated by this device");
    this.#regions.delete(address);
    this.#free(address, kind);
  }

  /** Keeps a region for as long as the process lives: somebody may still write to it. */
  abandon(address: bigint): void {
    assert(this.#regions.delete(address), "Cannot abandon memory: not allocated by this device");
    this.#abandons = true;
  }

  /** Whether some region must outlive this; on the host it lives no longer than its context. */
  get abandons(): boolean {
    return this.#abandons;
  }

  /** What the GPU has in all, and what nobody uses. */
  size(): DeviceMemory {
    const free = new BigUint64Array(1);
    const total = new BigUint64Array(1);
    this.#driver.run("cuMemGetInfo", free, total);
    return { totalBytes: Number(total[0] ?? 0n), availableBytes: Number(free[0] ?? 0n) };
  }

  /** Releases all regions but those that were abandoned. */
  dispose(): void {
    for (const [address, kind] of this.#regions) this.#free(address, kind);
    this.#regions.clear();
  }

  #take(kind: "device" | "host", bytes: number, what: string): bigint {
    assert(Number.isSafeInteger(bytes) && bytes >= 0, `Cannot allocate ${bytes} bytes`);
    // A graph would be captured with it, and its fill done each time.
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
        : ["the system does not pin as many", "use fewer host blocks (--host-cache-bytes)"];
    return new EngineError(
      "OUT_OF_MEMORY",
      `Cannot allocate ${what}: ${bytes} bytes wanted, ${place}; ${remedy}`,
    );
  }

  #free(address: bigint, kind: "device" | "host"): void {
    // cuMemFree waits for the device by itself; pinned memory would vanish under a running copy.
    if (kind === "host") this.#driver.run("cuCtxSynchronize");
    this.#driver.run(kind === "device" ? "cuMemFree" : "cuMemFreeHost", address);
  }
}
