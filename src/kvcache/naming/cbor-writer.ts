/**
 * The part of canonical CBOR (RFC 8949, 4.2) that block hashes need: integers, strings, arrays and
 * null, each with its shortest head. No more of a package would be used.
 */
import { assert } from "#base";

// Major types.
const UNSIGNED = 0;
const NEGATIVE = 1;
const BYTES = 2;
const TEXT = 3;
const ARRAY = 4;
const NULL = 0xf6;

const HEAD_BYTES_MAX = 5;
const encoder = new TextEncoder();

/** Writes values one after the other into a buffer that it keeps. */
export class CborWriter {
  #buffer = new Uint8Array(256);
  #length = 0;

  /** The bytes written since `reset`. A view: valid until the next write. */
  bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Starts anew. */
  reset(): void {
    this.#length = 0;
  }

  /** A whole number of at most 32 bits and a sign. */
  integer(value: number): void {
    if (value < 0) this.#head(NEGATIVE, -1 - value);
    else this.#head(UNSIGNED, value);
  }

  text(value: string): void {
    this.#string(TEXT, encoder.encode(value));
  }

  byteString(value: Uint8Array): void {
    this.#string(BYTES, value);
  }

  /** An array whose `length` items are written next. */
  array(length: number): void {
    this.#head(ARRAY, length);
  }

  null(): void {
    this.#reserve(1);
    this.#push(NULL);
  }

  #string(major: number, bytes: Uint8Array): void {
    this.#head(major, bytes.length);
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** The shortest of the four heads that hold the argument. */
  #head(major: number, argument: number): void {
    assert(argument <= 0xffffffff, "Block contents have numbers of 32 bits");
    this.#reserve(HEAD_BYTES_MAX);
    const type = major << 5;
    if (argument < 24) {
      this.#push(type | argument);
      return;
    }
    const width = argument < 0x100 ? 1 : argument < 0x10000 ? 2 : 4;
    this.#push(type | (23 + (width === 4 ? 3 : width)));
    for (let shift = (width - 1) * 8; shift >= 0; shift -= 8) this.#push(argument >>> shift);
  }

  #push(byte: number): void {
    this.#buffer[this.#length++] = byte;
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = new Uint8Array(Math.max(needed, this.#buffer.length * 2));
    larger.set(this.bytes());
    this.#buffer = larger;
  }
}
