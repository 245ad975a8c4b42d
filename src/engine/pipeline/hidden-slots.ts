/**
 * Hidden states on their way from one stage to the next: a file without a name, in memory where the
 * system has a folder for that, whose descriptor the next stage inherits. What a stage writes is
 * there before the message that tells of it, without a thread of either side that waits.
 */
import { randomBytes } from "node:crypto";
import { closeSync, existsSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EngineError, messageOf } from "#base";

const MEMORY_FOLDER = "/dev/shm";
const NAME_BYTES = 16;

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

  /** Throws OUT_OF_MEMORY where no file can be made. */
  static create(sizes: SlotSizes): HiddenSlots {
    const folder = existsSync(MEMORY_FOLDER) ? MEMORY_FOLDER : tmpdir();
    const path = join(folder, `perigee-${randomBytes(NAME_BYTES).toString("hex")}`);
    try {
      const fd = openSync(path, "wx+", 0o600);
      unlinkSync(path);
      return new HiddenSlots(fd, sizes);
    } catch (cause) {
      throw failed(`a file in ${folder} is wanted, ${messageOf(cause)}`, cause);
    }
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

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function failed(why: string, cause?: unknown): EngineError {
  const message =
    `Cannot pass hidden states to the next pipeline stage: ${why}; give ${MEMORY_FOLDER} more ` +
    "room, or lower pipeline.chunkTokens";
  return new EngineError("OUT_OF_MEMORY", message, { cause });
}
