import type { Device, WeightFormat, WeightMatrix } from "#devices";

/** A matrix [rows, columns] of numbers, as `device` packs it. */
export function packFloats(
  device: Device,
  floats: ArrayLike<number>,
  [rows, columns]: readonly [rows: number, columns: number],
  format: WeightFormat,
): WeightMatrix {
  const bytes = new Uint8Array(Float32Array.from(floats).buffer);
  const source = {
    name: "w",
    dtype: "f32",
    shape: [rows, columns],
    bytes: () => bytes,
    discard() {},
  } as const;
  return device.pack([source], { format });
}
