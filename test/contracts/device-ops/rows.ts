import { test } from "vitest";
import type { ActivationKind, NormKind, WeightFormat } from "#devices";
import { type DevicePair, formatTolerance } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

const kinds: readonly ActivationKind[] = ["silu", "gelu", "gelu-tanh", "relu", "tanh"];
const formats: readonly WeightFormat[] = ["f32", "bf16", "i8"];
/** Rows and columns: one row, many, less than a vector, more than a group of 128, odd. */
const shapes = [
  [1, 576],
  [3, 1],
  [5, 15],
  [2, 130],
  [37, 300],
] as const;
/** f32 sums of some hundred products in another order than the definition's f64. */
const rounding = { absolute: 2e-6, relative: 2e-6 };

function normContract(pair: () => DevicePair): void {
  const cases = formats.flatMap((format) =>
    (["rms", "layer"] satisfies NormKind[]).flatMap((kind) =>
      shapes.map(([rows, columns]) => ({ format, kind, rows, columns })),
    ),
  );
  test.for(cases)("norm: $kind of [$rows, $columns] to $format", async (given) => {
    const { format, kind, rows, columns } = given;
    const random = new RandomNumbers(columns);
    const x = pair().f32([rows + 1, columns], random.floats((rows + 1) * columns, 3));
    const delta = pair().f32([rows, columns], random.floats(rows * columns));
    const weight = pair().f32([columns], random.floats(columns));
    const bias = pair().f32([columns], random.floats(columns));
    const out = pair().activation(format, rows, columns);
    const layer = kind === "layer";
    pair().run((device, pick) => {
      device.norm({
        count: rows,
        kind,
        out: pick(out),
        x: pick(x),
        weight: pick(weight),
        epsilon: 1e-5,
        ...(layer ? { bias: pick(bias) } : { delta: pick(delta), weightOffset: 1 }),
      });
    });
    await pair().expectClose(out, formatTolerance(format, { absolute: 1e-5, relative: 1e-5 }, 12));
    await pair().expectClose(x, rounding);
  });

  test("norm: into a plain tensor, in place", async () => {
    const x = pair().f32([4, 50], new RandomNumbers(1).floats(200));
    const weight = pair().f32([50], new RandomNumbers(2).floats(50));
    pair().run((device, pick) => {
      const rows = { count: 4, out: pick(x), x: pick(x), weight: pick(weight) };
      device.norm({ ...rows, kind: "rms", epsilon: 1e-6 });
    });
    await pair().expectClose(x, { absolute: 1e-5, relative: 1e-5 });
  });
}

function activateContract(pair: () => DevicePair): void {
  const cases = formats.flatMap((format) =>
    kinds.flatMap((kind) => [true, false].map((gated) => ({ format, kind, gated }))),
  );
  test.for(cases)("activate: $kind to $format, gated: $gated", async ({ format, kind, gated }) => {
    for (const [rows, columns] of shapes) {
      const width = gated ? 2 * columns : columns;
      const values = new RandomNumbers(rows).floats(rows * width, 3);
      values.set([0, -0, 90, -90].slice(0, columns));
      const x = pair().f32([rows, width], values);
      const out = pair().activation(format, rows, columns);
      pair().run((device, pick) => {
        device.activate({ count: rows, kind, out: pick(out), x: pick(x), gated });
      });
      await pair().expectClose(out, formatTolerance(format, rounding, gated ? 1000 : 90));
    }
  });
}

function movingContract(pair: () => DevicePair): void {
  test.for(formats)("convert: to %s", async (format) => {
    for (const [rows, columns] of shapes) {
      const x = pair().f32([rows, columns], new RandomNumbers(rows).floats(rows * columns, 3));
      const out = pair().activation(format, rows, columns);
      pair().run((device, pick) => {
        device.convert({ count: rows, out: pick(out), x: pick(x) });
      });
      await pair().expectClose(out, { absolute: 0, relative: 1e-7 });
    }
  });

  test("add and softcap: the first rows of a longer tensor", async () => {
    for (const [rows, columns] of [...shapes, [5, 9000]] as const) {
      const random = new RandomNumbers(columns);
      const size = (rows + 1) * columns;
      const x = pair().f32([rows + 1, columns], random.floats(size, 20));
      const delta = pair().f32([rows + 1, columns], random.floats(size));
      pair().run((device, pick) => {
        device.add({ count: rows, x: pick(x), delta: pick(delta) });
        device.softcap({ count: rows, x: pick(x), cap: 30 });
      });
      await pair().expectClose(x, rounding);
    }
  });

  test.for(kinds)("add: %s of delta, the first rows of a longer tensor", async (kind) => {
    for (const [rows, columns] of [...shapes, [5, 9000]] as const) {
      const random = new RandomNumbers(columns);
      const size = (rows + 1) * columns;
      const x = pair().f32([rows + 1, columns], random.floats(size));
      const values = random.floats(size, 3);
      values.set([0, -0, 90, -90].slice(0, columns));
      const delta = pair().f32([rows + 1, columns], values);
      pair().run((device, pick) => {
        device.add({ count: rows, x: pick(x), delta: pick(delta), kind });
      });
      await pair().expectClose(x, rounding);
    }
  });

  test("gatherRows: any order, rows twice", async () => {
    const x = pair().f32([9, 33], new RandomNumbers(5).floats(9 * 33));
    const indices = pair().i32([8, 0, 3, 3, 7]);
    const out = pair().f32([6, 33]);
    pair().run((device, pick) => {
      device.gatherRows({ count: 5, out: pick(out), x: pick(x), indices: pick(indices) });
    });
    await pair().expectClose(out, { absolute: 0, relative: 0 });
  });

  test.for([true, false])("meanPool: an empty sequence too, normalize: %s", async (normalize) => {
    const x = pair().f32([40, 70], new RandomNumbers(6).floats(40 * 70));
    const starts = pair().i32([0, 1, 1, 30, 40]);
    const out = pair().f32([4, 70]);
    pair().run((device, pick) => {
      const input = { out: pick(out), x: pick(x), starts: pick(starts), sequences: 4, normalize };
      device.meanPool(input);
    });
    await pair().expectClose(out, rounding);
  });
}

/** norm, activate, convert, add, softcap, gatherRows, meanPool. */
export function rowOps(pair: () => DevicePair): void {
  normContract(pair);
  activateContract(pair);
  movingContract(pair);
}
