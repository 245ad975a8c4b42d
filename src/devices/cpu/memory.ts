import { totalmem } from "node:os";
import { assert, EngineError } from "#base";
import type { DeviceMemory } from "../device.ts";
import type { CpuLibrary } from "./library.ts";

/**
 * The system is asked how much memory it has left once for so many bytes: it takes 0.06 ms to
 * answer, and a model has hundreds of small regions.
 */
const UNCHECKED_BYTES_MAX = 4 * 2 ** 20;

/** Native memory of one device: every region is recorded until it is released. */
export class CpuMemory {
  readonly #library: CpuLibrary;
  /** Allocated since the system was last asked; at first it has not been. */
  #uncheckedBytes = UNCHECKED_BYTES_MAX;
  /** Size in bytes by address. */
  readonly #regions = new Map<bigint, number>();

  constructor(library: CpuLibrary) {
    this.#library = library;
  }

  /** Zero-filled and 64-byte aligned. `what` is named in the OUT_OF_MEMORY error. */
  allocate(bytes: number, what: string): bigint {
    assert(Number.isSafeInteger(bytes) && bytes >= 0, `Cannot allocate ${bytes} bytes`);
    const address = this.#isThere(bytes) ? this.#library.allocate(bytes) : null;
    if (address === null) {
      const { availableBytes } = availableMemory();
      throw new EngineError(
        "OUT_OF_MEMORY",
        `Cannot allocate ${what}: ${bytes} bytes wanted, ${availableBytes} are available; ` +
          "use a smaller model, fewer KV blocks or a smaller format",
      );
    }
    this.#regions.set(address, bytes);
    return address;
  }

  /** Whether there is room: taken for granted while little was allocated since the last look. */
  #isThere(bytes: number): boolean {
    this.#uncheckedBytes += bytes;
    if (this.#uncheckedBytes <= UNCHECKED_BYTES_MAX) return true;
    if (bytes > availableMemory().availableBytes) return false;
    this.#uncheckedBytes = 0;
    return true;
  }

  release(address: bigint): void {
    const bytes = this.#regions.get(address);
    assert(bytes !== undefined, "Cannot release memory: not allocated by this device");
    this.#regions.delete(address);
    this.#library.release(address, bytes);
  }

  /** Releases all regions. */
  dispose(): void {
    for (const [address, bytes] of this.#regions) this.#library.release(address, bytes);
    this.#regions.clear();
  }
}

/** Memory that the system or the container still grants this process. */
export function availableMemory(): DeviceMemory {
  const total = totalmem();
  const limit = process.constrainedMemory();
  const totalBytes = limit > 0 && limit < total ? limit : total;
  // macOS counts only untouched pages as free; its page cache is reclaimed on demand.
  if (process.platform === "darwin") {
    return { totalBytes, availableBytes: Math.max(0, totalBytes - process.memoryUsage.rss()) };
  }
  return { totalBytes, availableBytes: Math.min(process.availableMemory(), totalBytes) };
}
