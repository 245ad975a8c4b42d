/** Few rows of bf16 on the emulated GPU: strips of a matrix through rings of stages. */
import { test } from "vitest";
import type { Device } from "#devices";
import { STREAM_ROWS_MAX } from "../../../src/devices/cuda/kernels/row-limits.ts";
import { linearActivateOps } from "../../contracts/device-ops/linear-activate.ts";
import { packFloats } from "../../contracts/device-ops/pack-floats.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { eachNth } from "../../support/full.ts";
import { expectSameBits } from "../../support/same-bits.ts";
import { describeEmulated, openPair } from "./describe-emulated.ts";

/**
 * [T, N, K]: fewer strips than blocks, passes of one strip, two and more, a stage that is not full,
 * more stages than a ring has, ragged outputs and columns, whole stages whose rows of x stay or do
 * not; each count of rows that a kernel is made for.
 */
const shapes = [
  [1, 1, 1],
  [1, 128, 64],
  [2, 130, 72],
  [7, 33, 1000],
  [8, 256, 512],
  [8, 40, 4000],
  [9, 700, 130],
  [16, 129, 320],
  [16, 33, 3208],
  [1, 400, 1024],
  [3, 208, 256],
  [8, 192, 2816],
  [13, 320, 768],
] as const;

/** Sums of K products of numbers about 1, in another order. */
function rounding(columns: number): { absolute: number; relative: number } {
  return { absolute: 4e-6 * Math.sqrt(columns), relative: 2e-6 };
}

function weightsOf(device: Device, rows: number, columns: number) {
  const floats = new RandomNumbers(rows).floats(rows * columns, 1);
  return packFloats(device, floats, [rows, columns], "bf16");
}

describeEmulated("linear of few rows, emulated", openPair, (pair) => {
  function activation(rows: number, columns: number) {
    const plain = pair.f32([rows, columns], new RandomNumbers(columns).floats(rows * columns, 1));
    const x = pair.activation("bf16", rows, columns);
    pair.run((device, pick) => device.convert({ count: rows, out: pick(x), x: pick(plain) }));
    return x;
  }

  test.for(eachNth(2, shapes))(
    "equals the definition: %i rows, [%i, %i]",
    async ([rows, outputs, columns]) => {
      const weight = pair.make((device) => weightsOf(device, outputs, columns));
      const x = activation(rows, columns);
      const random = new RandomNumbers(outputs);
      const bias = pair.f32([outputs], random.floats(outputs, 1));
      const out = pair.f32([rows + 1, outputs], random.floats((rows + 1) * outputs, 1));
      // Twice: what is in shared memory is of no account.
      for (let i = 0; i < 2; i++) {
        pair.run((device, pick) => {
          const input = { count: rows, out: pick(out), x: pick(x), weight: pick(weight) };
          device.linear({ ...input, bias: pick(bias), accumulate: true });
        });
      }
      await pair.expectClose(out, rounding(columns));
    },
  );

  linearActivateOps(() => pair);

  test.for([
    [200, 300],
    [160, 2560],
  ] as const)("a row has the same bits among any rows: [%i, %i]", async ([outputs, columns]) => {
    const device = pair.tested;
    const weight = weightsOf(device, outputs, columns);
    const x = activation(STREAM_ROWS_MAX, columns).tested;
    const out = device.allocate("f32", [STREAM_ROWS_MAX, outputs]);
    device.linear({ count: STREAM_ROWS_MAX, out, x, weight });
    const all = await device.readF32(out);
    for (const [row, count] of [
      [0, 1],
      [15, 1],
      [3, 12],
      [10, 5],
    ] as const) {
      const some = device.activationRows(x, row, row + count);
      device.linear({ count, out, x: some, weight });
      const alone = (await device.readF32(out)).subarray(0, count * outputs);
      expectSameBits(alone, all.subarray(row * outputs, (row + count) * outputs));
    }
  });
});
