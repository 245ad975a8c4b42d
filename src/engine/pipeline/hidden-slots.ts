/**
 * Hidden states on their way from one stage to the next: a file without a name, in memory where the
 * system has a folder for that, whose descriptor the next stage inherits. What a stage writes is
 * there before the message that tells of it, without a thread of either side that waits.
 */
import { randomBytes } from "node:crypto";
import { closeSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EngineError, messageOf } from "#base";

/** In memory, which containers may have little of there; then wherever temporary files are. */
const FOLDERS: readonly string[] = ["/dev/shm", tmpdir()];
const NAME_BYTES = 16;
const NOTHING = new Uint8Array(1 << 20);

/** The slots of one pair of stages: the states of a step are in the slot of its number. */
export class HiddenSlots {
  readonly fd: number;
  readonly #slots: number;
  readonly #floatsPerSlot: number;

  /** `fd`: of a file that `create` made. */
  constructor(fd: number, { slots, floatsPerSlot }: SlotSizes) {
    this.fd = fd;
    this.#slots = slots;
    this.#floatsPerSlot = floatsPerSlot;
  }

  /**
   * Takes all of the room at once, in the first of the folders that has it. Throws OUT_OF_MEMORY
   * where none has.
   */
  static create(sizes: SlotSizes, folders: readonly string[] = FOLDERS): HiddenSlots {
    const bytes = sizes.slots * sizes.floatsPerSlot * Float32Array.BYTES_PER_ELEMENT;
    let problem: unknown = null;
    for (const folder of folders) {
      try {
        return new HiddenSlots(reserved(folder, bytes), sizes);
      } catch (error) {
        problem = error;
      }
    }
    const why = `${bytes} bytes in ${folders.join(" or ")} are wanted, ${messageOf(problem)}`;
    throw failed(why, problem);
  }

  /** Writes the states of step `step`; those of `slots` steps before are gone. */
  write(step: number, states: Float32Array): void {
    let bytes = bytesOf(states);
    let at = this.#startOf(step);
    try {
      while (bytes.length > 0) {
        const written = writeSync(this.fd, bytes, 0, bytes.length, at);
        bytes = bytes.subarray(written);
        at += written;
      }
    } catch (cause) {
      throw failed(`${bytes.length} bytes do not fit, ${messageOf(cause)}`, cause);
    }
  }

  /** Reads what was written of step `step`. */
  read(step: number, floats: number): Float32Array {
    const states = new Float32Array(floats);
    let bytes = bytesOf(states);
    let at = this.#startOf(step);
    while (bytes.length > 0) {
      const read = readSync(this.fd, bytes, 0, bytes.length, at);
      if (read === 0) throw failed(`${bytes.length} bytes of step ${step} are missing`);
      bytes = bytes.subarray(read);
      at += read;
    }
    return states;
  }

  close(): void {
    closeSync(this.fd);
  }

  #startOf(step: number): number {
    return (step % this.#slots) * this.#floatsPerSlot * Float32Array.BYTES_PER_ELEMENT;
  }
}

/** How many steps may be on their way, and the states of the largest. */
export interface SlotSizes {
  readonly slots: number;
  readonly floatsPerSlot: number;
}

/** A file without a name of so many bytes, which are there already. */
function reserved(folder: string, bytes: number): number {
  const path = join(folder, `perigee-${randomBytes(NAME_BYTES).toString("hex")}`);
  const fd = openSync(path, "wx+", 0o600);
  try {
    unlinkSync(path);
    for (let at = 0; at < bytes; ) {
      at += writeSync(fd, NOTHING, 0, Math.min(NOTHING.length, bytes - at), at);
    }
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function failed(why: string, cause?: unknown): EngineError {
  const message =
    `Cannot pass hidden states to the next pipeline stage: ${why}; make room ` +
    "there, or lower pipeline.chunkTokens";
  return new EngineError("OUT_OF_MEMORY", message, { cause });
}
