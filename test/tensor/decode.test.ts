import { expect, test } from "vitest";
import { decodeFloats } from "#tensor";

test("f32 bytes that lie aligned are viewed, others copied", () => {
  const bytes = new Uint8Array(12);
  new DataView(bytes.buffer).setFloat32(4, 1.5, true);
  const view = decodeFloats(bytes.subarray(4, 8), "f32");
  expect(view).toEqual(Float32Array.of(1.5));
  expect(view.buffer).toBe(bytes.buffer);

  new DataView(bytes.buffer).setFloat32(5, 2.5, true);
  const copy = decodeFloats(bytes.subarray(5, 9), "f32");
  expect(copy).toEqual(Float32Array.of(2.5));
  expect(copy.buffer).not.toBe(bytes.buffer);
});

test("16-bit floats are widened, from odd places too", () => {
  const bytes = Uint8Array.of(0, 0x80, 0x3f, 0x00, 0xc0);
  expect(decodeFloats(bytes.subarray(1), "bf16")).toEqual(Float32Array.of(1, -2));
  expect(decodeFloats(Uint8Array.of(0x00, 0x3c), "f16")).toEqual(Float32Array.of(1));
});

test("a trailing part of an element is left out", () => {
  expect(decodeFloats(new Uint8Array(7), "f32")).toHaveLength(1);
});
