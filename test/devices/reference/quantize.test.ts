import fc from "fast-check";
import { expect, test } from "vitest";
import { quantGroupColumns, quantizeRows, ReferenceDevice } from "#devices";
import { tensorSource } from "./sources.ts";

test("a group's scale is its largest magnitude over 127, in f32", () => {
  const { values, scales } = quantizeRows(Float32Array.of(127, -63.5, 1, 0), 1, 4);
  expect(scales).toEqual(Float32Array.of(1));
  expect(values).toEqual(Int8Array.of(127, -64, 1, 0));
});

test("halves are rounded to the even neighbour, on both sides of zero", () => {
  const row = Float32Array.of(127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5);
  expect(quantizeRows(row, 1, 7).values).toEqual(Int8Array.of(127, 0, 2, 2, 0, -2, -2));
});

test("the last group of a row may be shorter, and rows do not share groups", () => {
  const columns = quantGroupColumns + 1;
  const data = new Float32Array(2 * columns).fill(1);
  data[quantGroupColumns] = 254;
  const { scales } = quantizeRows(data, 2, columns);
  expect(scales).toEqual(Float32Array.of(1 / 127, 2, 1 / 127, 1 / 127));
});

test("a group of zeros has scale 0 and stays zero", () => {
  const { values, scales } = quantizeRows(new Float32Array(3), 1, 3);
  expect(scales).toEqual(Float32Array.of(0));
  expect(values).toEqual(new Int8Array(3));
});

/** A step below f32's smallest number is zero: so much may be lost for it. */
const underflow = 127 * 2 ** -149;

test("a value comes back within half a step of its group", async () => {
  const device = new ReferenceDevice();
  const finite = fc.float({ noNaN: true, min: -1000, max: 1000 });
  await fc.assert(
    fc.asyncProperty(fc.array(finite, { minLength: 1, maxLength: 300 }), async (numbers) => {
      const row = Float32Array.from(numbers);
      const { scales } = quantizeRows(row, 1, row.length);
      const out = device.allocateActivation("i8", 1, row.length);
      const x = device.allocate("f32", [1, row.length]);
      device.write(x, row);
      device.convert({ count: 1, out, x });
      (await device.readF32(out)).forEach((value, i) => {
        const step = scales[Math.floor(i / quantGroupColumns)] ?? 0;
        expect(Math.abs(value - (row[i] ?? 0))).toBeLessThanOrEqual(0.5001 * step + underflow);
      });
    }),
    { numRuns: 50 },
  );
});

test("a dot product of i8 rows is the integer sum times both scales, group by group", async () => {
  const device = new ReferenceDevice();
  const weight = device.pack([tensorSource("w", [1, 3], [127, -127, 0])], { format: "i8" });
  const x = device.allocate("f32", [1, 3]);
  device.write(x, Float32Array.of(2, 1, 0.3));
  const activation = device.allocateActivation("i8", 1, 3);
  device.convert({ count: 1, out: activation, x });
  const out = device.allocate("f32", [1, 1]);
  device.linear({ count: 1, out, x: activation, weight });
  // x is [127, 64, 19] * 2/127 and w [127, -127, 0] * 1.
  expect((await device.readF32(out))[0]).toBeCloseTo(((127 - 64) * 127 * 2) / 127, 4);
});
