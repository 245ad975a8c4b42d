/** Tens to hundreds of rows of bf16 on the emulated GPU without cuBLASLt: tiles and their parts. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CudaDevice } from "../../../src/devices/cuda/cuda-device.ts";
import { grainsOf } from "../../../src/devices/cuda/linear-tiles.ts";
import { openSystemLibrary } from "../../../src/devices/cuda/native-library.ts";
import { packFloats } from "../../contracts/device-ops/pack-floats.ts";
import { DevicePair } from "../../contracts/device-ops/pair.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { emulatedSettings } from "./emulated-device.ts";

/**
 * [T, N, K]: each size of a tile, filled and not; fewer stages than blocks, tiles in one part, in
 * two and in many; more stages than a ring has; ragged outputs and columns; two tiles of rows.
 */
const shapes = [
  [17, 1, 1],
  [24, 130, 72],
  [32, 33, 2000],
  [33, 700, 200],
  [64, 129, 1032],
  [65, 260, 130],
  [96, 1100, 64],
  [97, 128, 640],
  [130, 70, 300],
  [256, 200, 640],
  [257, 33, 64],
  [400, 300, 136],
] as const;

/** [T, F, K] with a gate, and a bias where T is odd. */
const gatedShapes = [
  [17, 8, 1],
  [48, 72, 200],
  [96, 200, 136],
  [131, 64, 520],
  [256, 136, 72],
  [300, 40, 66],
] as const;

/** Sums of K products of numbers about 1, in another order. */
function rounding(columns: number): { absolute: number; relative: number } {
  return { absolute: 4e-6 * Math.sqrt(columns), relative: 2e-6 };
}

describe("grains of a tile", () => {
  test("are as few as leave the largest share hardly larger", () => {
    // [tiles, stages] of llama-3.1-8B's qkv, o, down and head, by 66 clusters.
    const shapes = [
      [24, 64],
      [16, 64],
      [16, 224],
      [501, 64],
    ] as const;
    const grains = shapes.map(([clusters, stages]) => grainsOf({ clusters, stages }, 66));
    expect(grains).toEqual([8, 4, 4, 4]);
  });

  test("are single stages where nothing else is as even", () => {
    expect(grainsOf({ clusters: 1, stages: 7 }, 4)).toBe(7);
    expect(grainsOf({ clusters: 1, stages: 1 }, 1)).toBe(1);
  });
});

describe.skipIf(emulatedSettings() === null)("linear in tiles, emulated", () => {
  let pair: DevicePair;
  beforeAll(async () => {
    const tested = await CudaDevice.open({
      settings: emulatedSettings() ?? {},
      openLibrary: (path) => (path.includes("cublasLt") ? null : openSystemLibrary(path)),
    });
    pair = new DevicePair(tested);
  }, 600_000);
  afterAll(() => pair.dispose());

  /** Rows, and a matrix that makes products of about `range` squared. */
  function operands(rows: number, [outputs, columns]: readonly [number, number], range: number) {
    const random = new RandomNumbers(rows + columns);
    const plain = pair.f32([rows, columns], random.floats(rows * columns, range));
    const x = pair.activation("bf16", rows, columns);
    pair.run((device, pick) => device.convert({ count: rows, out: pick(x), x: pick(plain) }));
    const floats = random.floats(outputs * columns, range);
    const weight = pair.make((device) => packFloats(device, floats, [outputs, columns], "bf16"));
    const bias = pair.f32([outputs], random.floats(outputs, 1));
    return { x, weight, bias };
  }

  test.for(shapes)("equals the definition: %i rows, [%i, %i]", async ([rows, outputs, columns]) => {
    const { x, weight, bias } = operands(rows, [outputs, columns], 1);
    const numbers = new RandomNumbers(outputs).floats((rows + 1) * outputs, 1);
    const out = pair.f32([rows + 1, outputs], numbers);
    // Twice: what is in shared memory, and what was counted, is of no account.
    for (let i = 0; i < 2; i++) {
      pair.run((device, pick) => {
        const input = { count: rows, out: pick(out), x: pick(x), weight: pick(weight) };
        device.linear(i === 0 ? { ...input, bias: pick(bias) } : { ...input, accumulate: true });
      });
    }
    await pair.expectClose(out, rounding(columns));
  });

  test.for(gatedShapes)("with a gate: %i rows, [%i, %i]", async ([rows, size, columns]) => {
    const { x, weight, bias } = operands(rows, [2 * size, columns], columns ** -0.25);
    const scratch = pair.f32([rows, 2 * size]);
    const out = pair.activation("bf16", rows + 1, size);
    pair.run((device, pick) => {
      device.linearActivate({
        ...{ count: rows, kind: "silu", gated: true, out: pick(out), x: pick(x) },
        ...{ weight: pick(weight), scratch: pick(scratch) },
        ...(rows % 2 === 1 && { bias: pick(bias) }),
      });
    });
    // One rounding to bf16, which may fall to either side.
    await pair.expectClose(out, { absolute: 1e-4, relative: 2 ** -7 });
  });

  test("gives the same bits again", async () => {
    const [rows, outputs, columns] = [70, 300, 2000];
    const { x, weight } = operands(rows, [outputs, columns], 1);
    const device = pair.tested;
    const [first, second] = [0, 1].map(() => {
      const out = device.allocate("f32", [rows, outputs]);
      device.linear({ count: rows, out, x: x.tested, weight: weight.tested });
      return device.readF32(out);
    });
    expect(await first).toEqual(await second);
  });
});
