import { expect, test } from "vitest";
import { bf16FromF32, f16FromF32, findNonFinite } from "#tensor";

const COUNT = 200_001;

function bytesOf(values: Float32Array, dtype: "f32" | "f16" | "bf16"): Uint8Array {
  if (dtype === "f32") return new Uint8Array(values.buffer.slice(0));
  const narrow = dtype === "f16" ? f16FromF32 : bf16FromF32;
  return new Uint8Array(Uint16Array.from(values, (value) => narrow(value)).buffer);
}

const types = ["f32", "f16", "bf16"] as const;

test.for(types)("finds the first number that is infinite or none, anywhere in %s", (dtype) => {
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
    for (const place of [0, 1, 77_777, COUNT - 2, COUNT - 1]) {
      const values = new Float32Array(COUNT).fill(1.5);
      values[place] = bad;
      values[COUNT - 1] = bad;
      expect(findNonFinite(bytesOf(values, dtype), dtype)).toBe(place);
    }
  }
});

test.for(types)("finds nothing among the largest and smallest numbers of %s", (dtype) => {
  const largest = { f32: 3.4028234663852886e38, f16: 65_504, bf16: 3.3895313892515355e38 }[dtype];
  const numbers = [largest, -largest, 0, -0, 1.4e-45, -1e-40, 1, -2];
  const values = Float32Array.from({ length: COUNT }, (_, i) => numbers[i % 8] ?? 0);
  expect(findNonFinite(bytesOf(values, dtype), dtype)).toBeNull();
});

test.for(types)("bytes may begin anywhere in their memory: %s", (dtype) => {
  const bytes = bytesOf(Float32Array.of(1, 2, Number.NaN, 3, 4), dtype);
  for (const offset of [1, 2, 3]) {
    const memory = new Uint8Array(bytes.length + offset);
    memory.set(bytes, offset);
    expect(findNonFinite(memory.subarray(offset), dtype)).toBe(2);
  }
});

test("no bytes hold nothing", () => {
  expect(findNonFinite(new Uint8Array(), "bf16")).toBeNull();
});
