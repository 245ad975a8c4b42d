/**
 * Arguments of a kernel: a struct of 8-byte fields in memory that is filled before every call and
 * passed as one pointer (34 ns through koffi; a struct from a JavaScript object costs 800).
 *
 * A bigint is an address; a number is a double, whether the field is an `Int` or a `Float` of
 * native/cpu/params.h; null is a null pointer.
 */
export class Params {
  readonly buffer: ArrayBuffer;
  readonly #addresses: BigUint64Array;
  readonly #numbers: Float64Array;

  constructor(fields: number) {
    this.buffer = new ArrayBuffer(fields * 8);
    this.#addresses = new BigUint64Array(this.buffer);
    this.#numbers = new Float64Array(this.buffer);
  }

  /** Writes all fields in the struct's order and returns the memory to pass. */
  fill(...fields: readonly (bigint | number | null)[]): ArrayBuffer {
    for (let i = 0; i < fields.length; i++) {
      const field = fields[i];
      if (typeof field === "number") this.#numbers[i] = field;
      else this.#addresses[i] = field ?? 0n;
    }
    return this.buffer;
  }
}
