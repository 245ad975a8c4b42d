/** Files as memory: mapped where the system can, read by positioned reads where it cannot. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { assert, EngineError, messageOf } from "#base";
import type { FileBytes } from "./file-bytes.ts";
import { type MemoryMap, systemMemoryMap } from "./system-memory-map.ts";

/** At least the page size of any supported system (16 KiB on Apple's chips, 64 KiB on some Arm). */
const PAGE_BYTES = 65_536;
const ALIGNMENT_BYTES = 64;
/** koffi.view aborts the process somewhere above 4 GiB (measured: 4 GiB works, 6 GiB does not). */
const VIEW_BYTES_MAX = 4 * 2 ** 30;
/** readSync takes an int32 length. */
const READ_BYTES_MAX = 2 ** 30;

export interface OpenFileOptions {
  /** Null reads instead of mapping. The system's by default. */
  readonly memoryMap?: MemoryMap | null;
}

/** Opens a regular file for reading by ranges. Throws MODEL_NOT_FOUND or IO. */
export function openFileBytes(path: string, options: OpenFileOptions = {}): FileBytes {
  const memoryMap = options.memoryMap === undefined ? systemMemoryMap() : options.memoryMap;
  const descriptor = openOrThrow(path);
  try {
    const status = fstatSync(descriptor);
    if (!status.isFile()) {
      throw new EngineError("IO", `Cannot read model file: ${path} must be a regular file`);
    }
    const address = status.size > 0 ? (memoryMap?.map(descriptor, status.size) ?? null) : null;
    if (memoryMap === null || address === null) {
      return new ReadFile(path, status.size, descriptor);
    }
    return new MappedFile(path, status.size, { memoryMap, address, descriptor });
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function openOrThrow(path: string): number {
  try {
    return openSync(path, "r");
  } catch (cause) {
    const missing = cause instanceof Error && "code" in cause && cause.code === "ENOENT";
    throw new EngineError(
      missing ? "MODEL_NOT_FOUND" : "IO",
      `Cannot open model file: ${path} must be readable, ${messageOf(cause)}`,
      { cause },
    );
  }
}

interface Mapping {
  readonly memoryMap: MemoryMap;
  readonly address: bigint;
  /** Stays open for checks of the file's size. */
  readonly descriptor: number;
}

/**
 * A file in the address space. Reading loads pages; `discard` releases them. Truncating the file
 * removes pages, and touching those ends the process (SIGBUS): so the size is checked before each
 * range is handed out. Truncation while a range is in use still ends it; model files are replaced
 * by a rename, as downloads here do it, never overwritten.
 */
class MappedFile implements FileBytes {
  readonly path: string;
  readonly sizeBytes: number;
  #mapping: Mapping | null;

  constructor(path: string, sizeBytes: number, mapping: Mapping) {
    this.path = path;
    this.sizeBytes = sizeBytes;
    this.#mapping = mapping;
  }

  read(start: number, end: number): Uint8Array {
    const { memoryMap, address, descriptor } = this.#get(start, end);
    if (start === end) return new Uint8Array(0);
    if (end - start > VIEW_BYTES_MAX) throw tooLarge(this.path, end - start);
    if (fstatSync(descriptor).size < this.sizeBytes) throw shrunk(this.path);
    // The view begins on an alignment boundary, so that byteOffset gives the true alignment.
    const lead = start % ALIGNMENT_BYTES;
    const buffer = memoryMap.view(address + BigInt(start - lead), end - start + lead);
    return new Uint8Array(buffer, lead, end - start);
  }

  discard(start: number, end: number): void {
    const { memoryMap, address } = this.#get(start, end);
    // Only pages that are entirely in the range: neighbouring ranges may still be in use.
    const first = Math.ceil(start / PAGE_BYTES) * PAGE_BYTES;
    const last = Math.floor(end / PAGE_BYTES) * PAGE_BYTES;
    if (last > first) memoryMap.discard(address + BigInt(first), last - first);
  }

  close(): void {
    const mapping = this.#mapping;
    this.#mapping = null;
    if (mapping === null) return;
    mapping.memoryMap.unmap(mapping.address, this.sizeBytes);
    closeSync(mapping.descriptor);
  }

  #get(start: number, end: number): Mapping {
    assert(this.#mapping !== null, `${this.path} is closed`);
    assertInside(this, start, end);
    return this.#mapping;
  }
}

/** The same interface by positioned reads, a new buffer for each. */
class ReadFile implements FileBytes {
  readonly path: string;
  readonly sizeBytes: number;
  #descriptor: number | null;

  constructor(path: string, sizeBytes: number, descriptor: number) {
    this.path = path;
    this.sizeBytes = sizeBytes;
    this.#descriptor = descriptor;
  }

  read(start: number, end: number): Uint8Array {
    assert(this.#descriptor !== null, `${this.path} is closed`);
    assertInside(this, start, end);
    if (end - start > VIEW_BYTES_MAX) throw tooLarge(this.path, end - start);
    const lead = start % ALIGNMENT_BYTES;
    const bytes = new Uint8Array(new ArrayBuffer(lead + end - start), lead);
    for (let done = 0; done < bytes.length; ) {
      const wanted = Math.min(READ_BYTES_MAX, bytes.length - done);
      const got = readSync(this.#descriptor, bytes, done, wanted, start + done);
      if (got === 0) throw shrunk(this.path);
      done += got;
    }
    return bytes;
  }

  discard(_start: number, _end: number): void {
    // Buffers belong to their callers; there are no pages to release.
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }
}

function assertInside(file: FileBytes, start: number, end: number): void {
  const inside = start >= 0 && start <= end && end <= file.sizeBytes;
  assert(inside, `bytes ${start} to ${end} lie outside ${file.path} of ${file.sizeBytes} bytes`);
}

function tooLarge(path: string, bytes: number): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot read ${path}: one tensor may take ${VIEW_BYTES_MAX} bytes, current value is ${bytes}`,
  );
}

function shrunk(path: string): EngineError {
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot read ${path}: it became shorter while it was open; download it again`,
  );
}
