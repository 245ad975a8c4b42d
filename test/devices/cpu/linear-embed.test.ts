import { afterAll, describe, expect, test } from "vitest";
import type { Device, WeightFormat } from "#devices";
import { ReferenceDevice } from "#devices";
import { cpuDevices, randomFloats, sourceOf, worstError } from "./linear-material.ts";

const FORMATS: readonly WeightFormat[] = ["f32", "bf16", "i8"];
const ROWS = 77;
const IDS = Int32Array.from([0, 76, 33, 31, 32, 5, 5]);

/** Rows are read back as they were rounded; scaling rounds once more. */
const TOLERANCE = 1e-6;

const devices = cpuDevices();
const reference = new ReferenceDevice();
afterAll(() => {
  for (const { device } of devices) device.dispose();
});

/** Two look-ups into the same rows: scaled, then added with an offset. */
async function lookUp(device: Device, format: WeightFormat | null, columns: number) {
  const source = sourceOf(randomFloats(ROWS * columns, 1), [ROWS, columns]);
  const table = format === null ? device.load(source) : device.pack([source], { format });
  const ids = device.allocate("i32", [IDS.length]);
  const out = device.allocate("f32", [IDS.length, columns]);
  device.write(ids, IDS);
  device.embed({ count: IDS.length, out, ids, table, scale: 3.7 });
  device.write(ids, Int32Array.from([2, 1, 0]));
  device.embed({ count: 3, out, ids, table, offset: 2, accumulate: true });
  return device.readF32(out);
}

describe.for(devices)("embed on $isa", ({ device }) => {
  test.for(
    [...FORMATS, null].flatMap((format) =>
      [1, 7, 64, 96, 129, 300].map((k) => [format, k] as const),
    ),
  )("equals the definition: table %s, %i columns", async ([format, columns]) => {
    const actual = await lookUp(device, format, columns);
    const wanted = await lookUp(reference, format, columns);
    expect(worstError(actual, wanted, 4)).toBeLessThan(TOLERANCE);
  });
});
