/** The vectors of a corpus in a folder: row after row of float32 in one file, little endian. */
import { closeSync, constants, fstatSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";
import { endianness } from "node:os";
import { assert } from "#base";

/** A chunk's place in the file. */
export type Row = number;

/** Read at a time; large enough that a call to the system costs little beside its bytes. */
const READ_BYTES = 1 << 20;

/** Reading and writing, made where it is missing, never cut. */
const FILE_FLAGS = constants.O_RDWR | constants.O_CREAT;

export class VectorFile {
  readonly dimensions: number;
  readonly #file: number;
  readonly #rowBytes: number;
  readonly #buffer: Float32Array;

  /** Opens the file, or makes it. */
  constructor(path: string, dimensions: number) {
    assert(endianness() === "LE", "Vectors are written as this processor has them");
    this.dimensions = dimensions;
    this.#rowBytes = dimensions * Float32Array.BYTES_PER_ELEMENT;
    this.#buffer = new Float32Array(
      Math.max(1, Math.floor(READ_BYTES / this.#rowBytes)) * dimensions,
    );
    this.#file = openSync(path, FILE_FLAGS, 0o600);
  }

  /** Rows that the file has, whether they are in use or not. */
  get rows(): number {
    return Math.floor(fstatSync(this.#file).size / this.#rowBytes);
  }

  /** Writes vectors to rows, in ascending order of rows; `sync` makes them durable. */
  write(rows: readonly Row[], vectors: readonly Float32Array[]): void {
    for (const [start, end] of runsOf(rows, this.#rowsAtOnce)) {
      for (let place = start; place < end; place++) {
        this.#buffer.set(vectors[place] ?? [], (place - start) * this.dimensions);
      }
      const bytes = this.#bytes(end - start);
      const position = rowAt(rows, start) * this.#rowBytes;
      // A file system without room writes less than it was given before it fails.
      for (let done = 0; done < bytes.length; ) {
        done += writeSync(this.#file, bytes, done, bytes.length - done, position + done);
      }
    }
  }

  sync(): void {
    fsyncSync(this.#file);
  }

  /**
   * Calls back with vectors of rows, which are in ascending order: `vectors` [count, dimensions]
   * are those of `rows` from `start` on, and valid until the callback returns.
   */
  read(rows: ArrayLike<Row>, visit: (vectors: Float32Array, start: number, count: number) => void) {
    for (const [start, end] of runsOf(rows, this.#rowsAtOnce)) {
      const count = end - start;
      const bytes = this.#bytes(count);
      const position = rowAt(rows, start) * this.#rowBytes;
      for (let done = 0; done < bytes.length; ) {
        const got = readSync(this.#file, bytes, done, bytes.length - done, position + done);
        if (got === 0)
          throw new Error(`the file of vectors ends before row ${rowAt(rows, end - 1)}`);
        done += got;
      }
      visit(this.#buffer.subarray(0, count * this.dimensions), start, count);
    }
  }

  /** The products of a query with the vectors of rows, which are in ascending order. */
  scores(query: Float32Array, rows: ArrayLike<Row>): Float64Array {
    const scores = new Float64Array(rows.length);
    this.read(rows, (vectors, start, count) => {
      for (let place = 0; place < count; place++) {
        scores[start + place] = dot(query, vectors, place * this.dimensions);
      }
    });
    return scores;
  }

  close(): void {
    closeSync(this.#file);
  }

  get #rowsAtOnce(): number {
    return this.#buffer.length / this.dimensions;
  }

  #bytes(rows: number): Uint8Array {
    return new Uint8Array(this.#buffer.buffer, 0, rows * this.#rowBytes);
  }
}

/** Stretches of consecutive rows, each of at most `most`: their places in the list. */
function* runsOf(rows: ArrayLike<Row>, most: number): Generator<readonly [number, number]> {
  for (let start = 0; start < rows.length; ) {
    let end = start + 1;
    while (
      end < rows.length &&
      end - start < most &&
      rows[end] === rowAt(rows, start) + end - start
    ) {
      end++;
    }
    yield [start, end];
    start = end;
  }
}

function rowAt(rows: ArrayLike<Row>, place: number): Row {
  const row = rows[place];
  assert(row !== undefined, "A place within the list has a row");
  return row;
}

/** In double precision: equal vectors have equal scores wherever they are. */
function dot(query: Float32Array, vectors: Float32Array, start: number): number {
  const { length } = query;
  const even = length - (length % 4);
  let [first, second, third, fourth] = [0, 0, 0, 0];
  for (let i = 0; i < even; i += 4) {
    first += query[i]! * vectors[start + i]!;
    second += query[i + 1]! * vectors[start + i + 1]!;
    third += query[i + 2]! * vectors[start + i + 2]!;
    fourth += query[i + 3]! * vectors[start + i + 3]!;
  }
  for (let i = even; i < length; i++) first += query[i]! * vectors[start + i]!;
  return first + second + third + fourth;
}
