/**
 * Arguments of a kernel and the shape of its launch, in memory that is filled before every call.
 *
 * A kernel takes one struct. All arguments of cuLaunchKernelEx are in one block, whose pointers are
 * set once:
 *
 *   CUlaunchConfig (56 bytes) · one CUlaunchAttribute (72) · kernelParams (8) · the struct
 *
 * That makes the call four addresses: 75 ns of koffi, where cuLaunchKernel's eleven arguments take
 * 137 (Node 20, x64). It is also the call that lets a kernel start before the previous one is done.
 */
import { assert } from "#base";
import { addressOf } from "#devices/cuda/driver";

/** A field of a params struct. As in C++, each lies at a multiple of its size. */
export type ParamKind = "pointer" | "i64" | "i32" | "f32";

/** `PackedRows` of native/cuda/packed-rows.h: memory, format, columns. */
export const PACKED_ROWS: readonly ParamKind[] = ["pointer", "i32", "i32"];

const fieldBytes: Readonly<Record<ParamKind, number>> = { pointer: 8, i64: 8, i32: 4, f32: 4 };

const configBytes = 56;
const attributeBytes = 72;
const arrayAt = configBytes + attributeBytes;
const structAt = arrayAt + 8;
/** CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION. */
const overlapAttribute = 6;

/** Grid and block size of a launch. */
export interface LaunchShape {
  /** Blocks along x, y and z; at least one each. */
  readonly grid: readonly [x: number, y?: number, z?: number];
  readonly threads: number;
  /** Dynamic shared memory of a block. */
  readonly sharedBytes?: number;
}

/** Stream order of a launch. */
export interface LaunchOrder {
  readonly stream: bigint;
  /**
   * The kernel may start while the previous one in the stream still runs; the kernel itself waits
   * for it where it must (native/cuda/stream-order.h).
   */
  readonly overlaps: boolean;
}

/** The memory of one kernel's launches, filled for each: the driver copies it during the call. */
export class KernelParams {
  /** CUlaunchConfig, and the array of pointers to arguments. */
  readonly configAddress: bigint;
  readonly arrayAddress: bigint;
  /** An array of ints at the end of the struct, for kernels that have one. */
  readonly tail: Int32Array;

  readonly #kinds: readonly ParamKind[];
  readonly #offsets: readonly number[];
  readonly #addresses: BigInt64Array;
  readonly #ints: Int32Array;
  readonly #floats: Float32Array;

  /** `tailInts`: length of an int array behind the fields. */
  constructor(kinds: readonly ParamKind[], tailInts = 0) {
    const { offsets, end } = layOut(kinds);
    // Addresses must not change: an ArrayBuffer lies outside V8's heap, small typed arrays do not.
    const memory = new ArrayBuffer(structAt + Math.ceil((end + 4 * tailInts) / 8) * 8);
    this.#kinds = kinds;
    this.#offsets = offsets.map((offset) => offset + structAt);
    this.#addresses = new BigInt64Array(memory);
    this.#ints = new Int32Array(memory);
    this.#floats = new Float32Array(memory);
    this.tail = new Int32Array(memory, structAt + end, tailInts);
    this.configAddress = addressOf(memory);
    this.arrayAddress = this.configAddress + BigInt(arrayAt);
    this.#addresses[40 / 8] = this.configAddress + BigInt(configBytes);
    this.#ints[configBytes / 4] = overlapAttribute;
    this.#ints[configBytes / 4 + 2] = 1;
    this.#addresses[arrayAt / 8] = this.configAddress + BigInt(structAt);
  }

  /** Writes all fields in the struct's order. A pointer is a bigint, or null. */
  fill(...values: readonly (bigint | number | null)[]): this {
    const kinds = this.#kinds;
    assert(
      values.length === kinds.length,
      `Cannot fill ${values.length} of ${kinds.length} kernel arguments`,
    );
    for (let i = 0; i < kinds.length; i++) this.#set(i, values[i] ?? null);
    return this;
  }

  /** Writes CUlaunchConfig for the next launch. */
  shape({ grid, threads, sharedBytes = 0 }: LaunchShape, { stream, overlaps }: LaunchOrder): void {
    const ints = this.#ints;
    ints[0] = grid[0];
    ints[1] = grid[1] ?? 1;
    ints[2] = grid[2] ?? 1;
    ints[3] = threads;
    ints[4] = 1;
    ints[5] = 1;
    ints[6] = sharedBytes;
    this.#addresses[32 / 8] = stream;
    ints[48 / 4] = overlaps ? 1 : 0;
  }

  /** Bytes of the struct, as the kernel sees it: for tests. */
  structBytes(): Uint8Array {
    return new Uint8Array(this.#ints.buffer, structAt).slice();
  }

  #set(index: number, value: bigint | number | null): void {
    const at = this.#offsets[index] ?? 0;
    switch (this.#kinds[index]) {
      case "pointer":
        assert(typeof value !== "number", `Cannot pass ${value} as an address`);
        this.#addresses[at / 8] = value ?? 0n;
        break;
      case "i64":
        this.#addresses[at / 8] = BigInt(value ?? 0);
        break;
      case "f32":
        this.#floats[at / 4] = Number(value);
        break;
      default:
        this.#ints[at / 4] = Number(value);
    }
  }
}

/** Offsets of a struct's fields, and the end of the last one. */
function layOut(kinds: readonly ParamKind[]): { offsets: number[]; end: number } {
  let end = 0;
  const offsets = kinds.map((kind) => {
    const bytes = fieldBytes[kind];
    const offset = Math.ceil(end / bytes) * bytes;
    end = offset + bytes;
    return offset;
  });
  return { offsets, end };
}
