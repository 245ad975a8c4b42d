/** Equality of large arrays. `toEqual` looks at each element, which takes seconds for a million. */
import { expect } from "vitest";

/** Fails unless both arrays have the same bytes. */
export function expectSameBits(actual: ArrayBufferView, wanted: ArrayBufferView): void {
  expect(actual.byteLength).toBe(wanted.byteLength);
  expect(haveSameBits(actual, wanted)).toBe(true);
}

/** Whether both arrays have the same bytes. */
export function haveSameBits(one: ArrayBufferView, other: ArrayBufferView): boolean {
  return bytesOf(one).equals(bytesOf(other));
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
