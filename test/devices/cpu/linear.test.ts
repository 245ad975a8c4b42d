import { afterAll, describe, expect, test } from "vitest";
import type { Device, LinearInput, WeightFormat } from "#devices";
import { ReferenceDevice } from "#devices";
import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { expectSameBits } from "../../support/same-bits.ts";
import { activationOf, cpuDevices, randomFloats, sourceOf, worstError } from "./linear-material.ts";

const FORMATS: readonly WeightFormat[] = ["f32", "bf16", "i8", "q8"];

/**
 * Of an output, relative to sqrt(K), the size of a sum of K products of numbers in [-1, 1): both
 * sides multiply the same rounded numbers, so only the order of f32 additions differs.
 */
const TOLERANCE = 4e-6;

/** [M, N, K]: single rows, whole and ragged tiles, panels and groups. */
const SHAPES: readonly (readonly [number, number, number])[] = [
  ...[1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 16, 17, 24, 25, 31, 32, 40].map(
    (m): [number, number, number] => [m, 33, 130],
  ),
  [1, 1, 1],
  [2, 15, 7],
  [3, 16, 96],
  [4, 17, 112],
  [5, 31, 127],
  [6, 32, 128],
  [7, 48, 129],
  [9, 96, 255],
  [3, 100, 576],
  [40, 64, 257],
  [512, 37, 70],
];

const devices = cpuDevices();
const reference = new ReferenceDevice();
afterAll(() => {
  for (const { device } of devices) device.dispose();
});

interface Problem {
  readonly format: WeightFormat;
  readonly count: number;
  readonly outputs: number;
  readonly inputs: number;
}

/** The product of seeded rows and weights; with `extras`, bias and the residual too. */
async function multiply(device: Device, problem: Problem, extras: boolean): Promise<Float32Array> {
  const { format, count, outputs, inputs } = problem;
  const weight = device.pack([sourceOf(randomFloats(outputs * inputs, 1), [outputs, inputs])], {
    format,
  });
  const x = activationOf(device, format, randomFloats(count * inputs, 2), count);
  const out = device.allocate("f32", [count, outputs]);
  device.write(out, randomFloats(count * outputs, 3));
  const bias = device.load(sourceOf(randomFloats(outputs, 4), [outputs]));
  const input: LinearInput = { count, out, x, weight };
  device.linear(extras ? { ...input, bias, accumulate: true } : input);
  return device.readF32(out);
}

test("int8 products have the same bits with AMX as without", async () => {
  const [amx, avx512] = ["amx", "avx512"].map((isa) => devices.find((one) => one.isa === isa));
  if (amx === undefined || avx512 === undefined) return;
  for (const [count, outputs, inputs] of [...SHAPES, [16, 70, 700] as const]) {
    const problem = { format: "i8", count, outputs, inputs } as const;
    const wanted = await multiply(avx512.device, problem, true);
    expectSameBits(await multiply(amx.device, problem, true), wanted);
  }
});

describe.for(devices)("linear on $isa", ({ isa, device }) => {
  test.for(FORMATS.flatMap((format) => SHAPES.map(([m, n, k]) => [format, m, n, k] as const)))(
    "equals the definition: %s, %i rows, [%i, %i]",
    async ([format, count, outputs, inputs]) => {
      const problem = { format, count, outputs, inputs };
      const extras = count % 2 === 1;
      const actual = await multiply(device, problem, extras);
      const wanted = await multiply(reference, problem, extras);
      expect(worstError(actual, wanted, Math.sqrt(inputs))).toBeLessThan(TOLERANCE);
    },
  );

  test.for(FORMATS)("gives a row the same bits in any batch: %s", async (format) => {
    const [rows, outputs, inputs] = [40, 70, 300];
    const weight = device.pack([sourceOf(randomFloats(outputs * inputs, 5), [outputs, inputs])], {
      format,
    });
    const x = activationOf(device, format, randomFloats(rows * inputs, 6), rows);
    const out = device.allocate("f32", [rows, outputs]);
    device.linear({ count: rows, out, x, weight });
    const together = await device.readF32(out);
    for (let count = 1; count <= rows; count++) {
      const first = rows - count;
      device.linear({ count, out, x: device.activationRows(x, first, rows), weight });
      const alone = await device.readF32(device.rows(out, 0, count));
      expectSameBits(alone, together.subarray(first * outputs));
    }
  });

  test.for(FORMATS)("gives the same bits on any number of threads: %s", async (format) => {
    // With 5 threads the rows of the larger one are packed by all of them.
    for (const count of [19, 75]) {
      const problem = { format, count, outputs: 200, inputs: 260 };
      const wanted = await multiply(device, problem, true);
      for (const threads of [1, 3, 5]) {
        const other = CpuDevice.open({ isa, threads });
        expectSameBits(await multiply(other, problem, true), wanted);
        other.dispose();
      }
    }
  });

  test.for(FORMATS)("packs f16, bf16, stacked and transposed sources alike: %s", async (format) => {
    const [first, second, inputs] = [37, 20, 150];
    const values = randomFloats((first + second) * inputs, 7);
    const x = (on: Device) => activationOf(on, format, randomFloats(3 * inputs, 8), 3);
    const sources = [
      sourceOf(values.subarray(0, first * inputs), [first, inputs], "bf16"),
      sourceOf(values.subarray(first * inputs), [second, inputs], "f16"),
    ];
    const outputs = first + second;
    const run = async (on: Device) => {
      const out = on.allocate("f32", [3, outputs]);
      on.linear({ count: 3, out, x: x(on), weight: on.pack(sources, { format }) });
      return on.readF32(out);
    };
    const wanted = await run(reference);
    expect(worstError(await run(device), wanted, Math.sqrt(inputs))).toBeLessThan(TOLERANCE);

    const plain = device.pack([sourceOf(values, [outputs, inputs])], { format });
    const columns = Float32Array.from(
      values,
      (_, i) => values[(i % outputs) * inputs + Math.floor(i / outputs)] ?? 0,
    );
    const transposed = device.pack([sourceOf(columns, [inputs, outputs])], {
      format,
      transposed: true,
    });
    const out = device.allocate("f32", [3, outputs]);
    device.linear({ count: 3, out, x: x(device), weight: plain });
    const fromRows = await device.readF32(out);
    device.linear({ count: 3, out, x: x(device), weight: transposed });
    expect(await device.readF32(out)).toEqual(fromRows);
  });

  test("computes the first `count` rows and leaves the others alone", async () => {
    const weight = device.pack([sourceOf(randomFloats(20 * 8, 9), [20, 8])], { format: "f32" });
    const x = activationOf(device, "f32", randomFloats(4 * 8, 10), 4);
    const out = device.allocate("f32", [4, 20]);
    device.linear({ count: 0, out, x, weight });
    device.linear({ count: 2, out, x, weight });
    const written = await device.readF32(out);
    expect(written.subarray(0, 40).every((value) => value !== 0)).toBe(true);
    expect(written.subarray(40).every((value) => value === 0)).toBe(true);
  });

  test("refuses shapes and formats that do not fit", () => {
    const weight = device.pack([sourceOf(randomFloats(16, 11), [2, 8])], { format: "f32" });
    const x = device.allocateActivation("bf16", 1, 8);
    const out = device.allocate("f32", [1, 2]);
    expect(() => device.linear({ count: 1, out, x, weight })).toThrow("Cannot multiply bf16 rows");
    const short = device.allocateActivation("f32", 1, 7);
    expect(() => device.linear({ count: 1, out, x: short, weight })).toThrow("Cannot use");
  });
});
