import { test } from "vitest";
import type { ActivationKind, Device, WeightFormat, WeightMatrix } from "#devices";
import { eachNth } from "../../support/full.ts";
import { type Both, type DevicePair, formatTolerance } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

const formats: readonly WeightFormat[] = ["f32", "bf16", "i8"];
const kinds: readonly ActivationKind[] = ["silu", "gelu", "gelu-tanh", "relu", "tanh"];

/**
 * [T, F, K]: one row, less than a tile, more than one, and more rows than a decode step has, of odd
 * columns and of multiples of 8.
 */
const shapes = [
  [1, 64, 64],
  [3, 5, 130],
  [8, 70, 300],
  [16, 129, 72],
  [33, 40, 66],
  [70, 66, 40],
  [130, 72, 24],
] as const;

/** A random matrix on both devices; its elements make products of `columns` terms about 1. */
function matrixOf(
  pair: DevicePair,
  format: WeightFormat,
  shape: readonly [rows: number, columns: number],
): Both<WeightMatrix> {
  const [rows, columns] = shape;
  const data = new RandomNumbers(rows + columns).floats(rows * columns, 1 / Math.sqrt(columns));
  const bytes = new Uint8Array(Float32Array.from(data).buffer);
  const source = {
    name: "weights",
    dtype: "f32",
    shape,
    bytes: () => bytes,
    discard() {},
  } as const;
  return pair.make((device: Device) => device.pack([source], { format }));
}

interface Given {
  readonly format: WeightFormat;
  readonly kind: ActivationKind;
  readonly gated: boolean;
}

async function check(
  pair: DevicePair,
  { format, kind, gated }: Given,
  [rows, size, columns]: readonly [number, number, number],
): Promise<void> {
  const random = new RandomNumbers(rows + size);
  const width = gated ? 2 * size : size;
  const plain = pair.f32([rows, columns], random.floats(rows * columns, 1));
  const x = pair.activation(format, rows, columns);
  const weight = matrixOf(pair, format, [width, columns]);
  const bias = pair.f32([width], random.floats(width, 1));
  const scratch = pair.f32([rows + 1, width]);
  const out = pair.activation(format, rows, size);
  pair.run((device, pick) => {
    device.convert({ count: rows, out: pick(x), x: pick(plain) });
    device.linearActivate({
      ...{ count: rows, kind, gated, out: pick(out), x: pick(x), weight: pick(weight) },
      scratch: pick(scratch),
      ...(rows % 2 === 1 && { bias: pick(bias) }),
    });
  });
  // A device may round a bf16 product before its activation: 2^-9 of gate and of up, each about 4
  // at most, and of the result.
  const own = format === "bf16" ? { absolute: 0.05, relative: 0.02 } : exact;
  await pair.expectClose(out, formatTolerance(format, own, 16));
}

/** The order of sums differs. */
const exact = { absolute: 2e-5, relative: 1e-5 };

/** linearActivate on `pair`, in every format, with and without a gate and a bias. */
export function linearActivateOps(pair: () => DevicePair): void {
  const cases = formats.flatMap((format) =>
    kinds.flatMap((kind) => [true, false].map((gated) => ({ format, kind, gated }))),
  );
  test.for(eachNth(5, cases))("linearActivate: $kind, $format, gated: $gated", async (given) => {
    for (const shape of shapes) await check(pair(), given, shape);
  });
}
