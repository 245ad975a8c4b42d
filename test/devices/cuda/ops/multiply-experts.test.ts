/** Experts in bf16 on the emulated GPU, on tensor cores; in f32 and i8 by the exact kernels. */
import { test } from "vitest";
import type { Device } from "#devices";
import { RandomNumbers } from "../../../contracts/device-ops/random.ts";
import { describeEmulated, openPair } from "../describe-emulated.ts";

/**
 * [tokens, experts, chosen, E, F]: one pair, eight and nine of them, tiles of 64 and what is left;
 * columns that are no multiple of a vector or a stage, more stages than there is room for; ragged
 * outputs.
 */
const shapes = [
  [1, 4, 2, 64, 32],
  [8, 1, 1, 72, 50],
  [9, 1, 1, 70, 33],
  [20, 5, 2, 130, 20],
  [64, 1, 1, 8, 64],
  [65, 1, 1, 72, 50],
  [90, 2, 2, 40, 24],
  [3, 6, 3, 700, 40],
] as const;

/** Outputs are sums of up to 50 products of numbers about 1, of activations rounded to 2^-9. */
const tolerances = {
  f32: { absolute: 1e-3, relative: 1e-5 },
  bf16: { absolute: 0.5, relative: 5e-3 },
} as const;

describeEmulated("experts, emulated", openPair, (pair) => {
  const cases = shapes.flatMap((shape) =>
    (["f32", "bf16"] as const).map((format) => ({ shape, format })),
  );
  test.for(cases)("equal the definition: $format, $shape", async ({ shape, format }) => {
    const [count, experts, expertsPerToken, columns, hidden] = shape;
    const random = new RandomNumbers(count + columns);
    const matrices = (rows: number, inputs: number) =>
      Array.from({ length: experts }, () => {
        const bytes = new Uint8Array(random.floats(rows * inputs, 0.5).buffer);
        const more = { shape: [rows, inputs], bytes: () => bytes, discard() {} };
        const source = { name: "w", dtype: "f32", ...more } as const;
        return pair.make((device: Device) => device.pack([source], { format }));
      });
    const gateUp = matrices(2 * hidden, columns);
    const down = matrices(columns, hidden);
    const plain = pair.f32([count, columns], random.floats(count * columns));
    const x = pair.activation(format, count, columns);
    pair.run((device, pick) => device.convert({ count, out: pick(x), x: pick(plain) }));
    const routerLogits = pair.f32([count, experts], random.floats(count * experts));
    const out = pair.f32([count, columns]);
    pair.run((device, pick) => {
      device.mixtureOfExperts({
        ...{ count, expertsPerToken, normalize: true, kind: "silu" },
        ...{ out: pick(out), x: pick(x), routerLogits: pick(routerLogits) },
        ...{ gateUp: gateUp.map(pick), down: down.map(pick) },
      });
    });
    await pair.expectClose(out, tolerances[format]);
  });
});
