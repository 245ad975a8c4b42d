/** The tensors of one quantised module of a checkpoint, found by their names and checked. */
import { bytesOf, decodeFloats, elementCount, type Shape, sameShape } from "#tensor";
import { invalidFile } from "./invalid-file.ts";
import type { NamedIntegers, NamedWeight } from "./named-weight.ts";
import { type Scaling, transpose } from "./quantized-matrix.ts";

/** A tensor's name without the module's, e.g. `qweight`. */
type Part = string;

/** A matrix whose shapes were checked and whose values are still to be read. */
export interface StoredMatrix {
  readonly rows: number;
  readonly columns: number;
  /** Reads the quanta, [rows, columns]. */
  quanta(): Uint8Array;
  /** Reads scales, zeros and groups. Throws CHECKPOINT_INVALID for a group that is none. */
  scaling(): Scaling;
}

/** Where modules are looked up. */
export interface ModuleTensors {
  /** For messages. */
  readonly path: string;
  readonly tensors: ReadonlyMap<string, NamedWeight>;
  readonly integers: ReadonlyMap<string, NamedIntegers>;
}

/** One module. Remembers which tensors it was made from. */
export class QuantizedModule {
  readonly name: string;
  readonly #from: ModuleTensors;
  readonly #used = new Map<string, NamedIntegers | NamedWeight>();

  constructor(from: ModuleTensors, name: string) {
    this.#from = from;
    this.name = name;
  }

  /** All tensors that were asked for, by name. */
  get used(): ReadonlyMap<string, NamedIntegers | NamedWeight> {
    return this.#used;
  }

  /** Size of these in the file. */
  get storedBytes(): number {
    let total = 0;
    for (const tensor of this.#used.values()) {
      const size = "dtype" in tensor ? bytesOf(tensor.dtype) : tensor.elementBytes;
      total += elementCount(tensor.shape) * size;
    }
    return total;
  }

  /** A part of integers. Null: there is none. */
  findIntegers(part: Part, elementBytes: NamedIntegers["elementBytes"]): NamedIntegers | null {
    const found = this.#from.integers.get(`${this.name}.${part}`);
    if (found === undefined) return null;
    if (found.elementBytes !== elementBytes) {
      throw this.fault(part, `must have integers of ${8 * elementBytes} bits`, "others");
    }
    this.#used.set(found.name, found);
    return found;
  }

  /** The same; throws CHECKPOINT_INVALID where there is none. */
  integers(part: Part, elementBytes: NamedIntegers["elementBytes"]): NamedIntegers {
    const found = this.findIntegers(part, elementBytes);
    if (found === null) throw this.fault(part, "must exist", "missing");
    return found;
  }

  /** A part of floats, of this shape or of any. */
  floats(part: Part, shape?: Shape): NamedWeight {
    const found = this.#from.tensors.get(`${this.name}.${part}`);
    if (found === undefined) throw this.fault(part, "must exist as floats", "missing");
    if (shape !== undefined) this.check(part, found.shape, shape);
    this.#used.set(found.name, found);
    return found;
  }

  /** Rows and columns of a part that must have both. */
  extents(part: Part, shape: Shape): readonly [rows: number, columns: number] {
    const [rows = 0, columns = 0] = shape;
    if (shape.length === 2 && rows > 0 && columns > 0) return [rows, columns];
    throw this.fault(part, "must have rows and columns", `[${shape.join(", ")}]`);
  }

  /** Throws unless the part has the wanted shape. */
  check(part: Part, shape: Shape, wanted: Shape): void {
    if (sameShape(shape, wanted)) return;
    const must = `must have shape [${wanted.join(", ")}]`;
    throw this.fault(part, must, `[${shape.join(", ")}]`);
  }

  /** CHECKPOINT_INVALID, which names the part. */
  fault(part: Part, must: string, actual: unknown): Error {
    const field = `tensor ${this.name}.${part}`;
    return invalidFile({ path: this.#from.path, field, must, actual });
  }
}

/** All elements as f32, whatever floats they are. Read-only. */
export function scalesOf(weight: NamedWeight): Float32Array {
  return decodeFloats(weight.bytes(), weight.dtype);
}

/** Scales stored as [G, R], as [R, G]. */
export function scalesTurned(weight: NamedWeight): Float32Array {
  const scales = scalesOf(weight);
  return transpose(new Float32Array(scales.length), scales, extentsOf(weight.shape));
}

/** A matrix of words with rows and columns exchanged. The copy belongs to the caller. */
export function wordsTurned(integers: NamedIntegers): Int32Array {
  const words = integers.values();
  return transpose(new Int32Array(words.length), words, extentsOf(integers.shape));
}

function extentsOf([rows = 0, columns = 0]: Shape): { rows: number; columns: number } {
  return { rows, columns };
}

/** The group of each column where groups are consecutive. Null: one group. */
export function groupsInOrder(columns: number, groupColumns: number | null): Int32Array {
  if (groupColumns === null) return new Int32Array(columns);
  return Int32Array.from({ length: columns }, (_, column) => Math.floor(column / groupColumns));
}

/** The number of these groups. */
export function groupCountOf(columns: number, groupColumns: number | null): number {
  return groupColumns === null ? 1 : Math.ceil(columns / groupColumns);
}

/** The group of each column as the file has it, checked. */
export function groupsStored(
  module: QuantizedModule,
  part: Part,
  index: NamedIntegers,
  groupCount: number,
): Int32Array {
  const groups = index.values();
  const wrong = groups.find((group) => group < 0 || group >= groupCount);
  if (wrong === undefined) return groups;
  throw module.fault(part, `must have groups from 0 to ${groupCount - 1}`, wrong);
}
