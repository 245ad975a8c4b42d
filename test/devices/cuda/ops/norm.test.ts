/** Norms on the emulated GPU, of more rows than blocks and of rows too long for one pass. */
import { expect, test } from "vitest";
import type { NormKind, WeightFormat } from "#devices";
import { formatTolerance } from "../../../contracts/device-ops/pair.ts";
import { RandomNumbers } from "../../../contracts/device-ops/random.ts";
import { describeEmulated, openPair } from "../describe-emulated.ts";

const formats: readonly WeightFormat[] = ["f32", "bf16", "i8"];
const kinds: readonly NormKind[] = ["rms", "layer"];

/**
 * [rows, columns]: rows by turns, whole groups of i8 and not; quads that two per thread do not hold;
 * rows that are no quads.
 */
const shapes = [
  [70, 512],
  [70, 516],
  [9, 8192],
  [5, 8196],
  [70, 515],
] as const;

describeEmulated("norms of many rows, emulated", openPair, (pair) => {
  const cases = formats.flatMap((format) =>
    kinds.flatMap((kind) => shapes.map(([rows, columns]) => ({ format, kind, rows, columns }))),
  );
  test.for(cases)("norm: $kind of [$rows, $columns] to $format", async (given) => {
    const { format, kind, rows, columns } = given;
    const random = new RandomNumbers(columns);
    const x = pair.f32([rows, columns], random.floats(rows * columns, 3));
    const delta = pair.f32([rows, columns], random.floats(rows * columns));
    const weight = pair.f32([columns], random.floats(columns));
    const bias = pair.f32([columns], random.floats(columns));
    const out = pair.activation(format, rows, columns);
    pair.run((device, pick) => {
      const input = { count: rows, kind, out: pick(out), x: pick(x), weight: pick(weight) };
      const more = kind === "layer" ? { bias: pick(bias) } : { weightOffset: 1 };
      device.norm({ ...input, delta: pick(delta), epsilon: 1e-5, ...more });
    });
    await pair.expectClose(out, formatTolerance(format, { absolute: 1e-5, relative: 1e-5 }, 12));
    await pair.expectClose(x, { absolute: 2e-6, relative: 2e-6 });
  });

  test.for([512, 515])("norm: a row of %i has its bits whatever is beside it", async (columns) => {
    const rows = 70;
    const { tested } = pair;
    const values = new RandomNumbers(columns).floats(rows * columns, 3);
    const weight = tested.allocate("f32", [columns]);
    tested.write(weight, new RandomNumbers(1).floats(columns));
    const normed = async (part: Float32Array): Promise<Float32Array> => {
      const count = part.length / columns;
      const x = tested.allocate("f32", [count, columns]);
      tested.write(x, part);
      tested.norm({ count, out: x, x, weight, kind: "rms", epsilon: 1e-6 });
      return tested.readF32(x);
    };
    const together = await normed(values);
    for (const row of [0, 41, 69]) {
      const [from, to] = [row * columns, (row + 1) * columns];
      expect(await normed(values.slice(from, to))).toEqual(together.slice(from, to));
    }
  });
});
