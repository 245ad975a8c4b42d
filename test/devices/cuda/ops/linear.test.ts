/** Many rows of i8 on the emulated GPU: on tensor cores, with the bits of the kernel of few rows. */
import { expect, test } from "vitest";
import type { Device } from "#devices";
import { I8_ROWS_MAX } from "../../../../src/devices/cuda/ops/linear.ts";
import { packFloats } from "../../../contracts/device-ops/pack-floats.ts";
import { RandomNumbers } from "../../../contracts/device-ops/random.ts";
import { describeEmulated, openPair } from "../describe-emulated.ts";

/**
 * [T, N, K]: less than a group of 128 columns, ragged chunks, each count of groups of which some
 * turn has none, more steps than a ring has stages, ragged tiles of rows and outputs, two bands.
 */
const shapes = [
  [17, 1, 1],
  [33, 1, 1],
  [33, 64, 16],
  [48, 65, 100],
  [49, 17, 128],
  [40, 33, 130],
  [97, 70, 300],
  [64, 130, 400],
  [50, 15, 512],
  [35, 66, 1030],
  [96, 64, 2304],
  [769, 3, 40],
] as const;

/** Numbers about 1 whose groups have scales of their own, and a group of zeros. */
function numbersOf(rows: number, columns: number, seed: number): Float32Array {
  const random = new RandomNumbers(seed).floats(rows * columns, 1);
  return Float32Array.from(random, (value, i) => {
    const group = Math.floor((i % columns) / 128);
    return group === 2 ? 0 : value * 3 ** ((group % 5) - 2);
  });
}

function weightsOf(device: Device, rows: number, columns: number) {
  const floats = numbersOf(rows, columns, rows);
  return packFloats(device, floats, [rows, columns], "i8");
}

describeEmulated("linear of many rows of i8, emulated", openPair, (pair) => {
  function activation(rows: number, columns: number) {
    const plain = pair.f32([rows, columns], numbersOf(rows, columns, columns));
    const x = pair.activation("i8", rows, columns);
    pair.run((device, pick) => device.convert({ count: rows, out: pick(x), x: pick(plain) }));
    return x;
  }

  test.for(shapes)("equals the definition: %i rows, [%i, %i]", async ([rows, outputs, columns]) => {
    const weight = pair.make((device) => weightsOf(device, outputs, columns));
    const x = activation(rows, columns);
    const random = new RandomNumbers(outputs);
    const bias = pair.f32([outputs], random.floats(outputs, 1));
    const out = pair.f32([rows + 1, outputs], random.floats((rows + 1) * outputs, 1));
    pair.run((device, pick) => {
      const input = { count: rows, out: pick(out), x: pick(x), weight: pick(weight) };
      device.linear({ ...input, bias: pick(bias), accumulate: true });
    });
    await pair.expectClose(out, { absolute: 4e-5 * Math.sqrt(columns), relative: 2e-6 });
  });

  test.for(shapes)("has the bits of few rows: %i rows, [%i, %i]", async (shape) => {
    const [rows, outputs, columns] = shape;
    const device = pair.tested;
    const weight = weightsOf(device, outputs, columns);
    const x = activation(rows, columns).tested;
    const out = device.allocate("f32", [rows, outputs]);
    device.linear({ count: rows, out, x, weight });
    const all = await device.readF32(out);
    for (let row = 0; row < rows; row += I8_ROWS_MAX) {
      const count = Math.min(I8_ROWS_MAX, rows - row);
      const some = device.activationRows(x, row, row + count);
      device.linear({ count, out, x: some, weight });
      const few = (await device.readF32(out)).subarray(0, count * outputs);
      expect(bitsOf(few)).toEqual(bitsOf(all.subarray(row * outputs, (row + count) * outputs)));
    }
  });
});

/** Bits tell a zero from a negative one. */
function bitsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.slice().buffer);
}
