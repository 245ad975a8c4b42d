/** Weight sources and tensors made of plain numbers. */
import type { Activation, Device, DeviceTensor, WeightMatrix, WeightSource } from "#devices";
import type { Shape } from "#tensor";

/** An f32 source in memory. */
export function tensorSource(
  name: string,
  shape: Shape,
  values: readonly number[] | Float32Array,
): WeightSource {
  const data = Float32Array.from(values);
  return { name, dtype: "f32", shape, bytes: () => new Uint8Array(data.buffer), discard() {} };
}

/** An f32 tensor holding `values`. */
export function floats(device: Device, shape: Shape, values: readonly number[]): DeviceTensor {
  const tensor = device.allocate("f32", shape);
  device.write(tensor, Float32Array.from(values));
  return tensor;
}

/** An i32 vector holding `values`. */
export function integers(
  device: Device,
  values: readonly number[],
  shape: Shape = [values.length],
): DeviceTensor {
  const tensor = device.allocate("i32", shape);
  device.write(tensor, Int32Array.from(values));
  return tensor;
}

/** A u32 tensor holding `values`. */
export function words(device: Device, shape: Shape, values: readonly number[]): DeviceTensor {
  const tensor = device.allocate("u32", shape);
  device.write(tensor, Uint32Array.from(values));
  return tensor;
}

/** An f32 matrix [rows, columns]. */
export function matrix(
  device: Device,
  rows: number,
  columns: number,
  values: readonly number[],
): WeightMatrix {
  return device.pack([tensorSource("matrix", [rows, columns], values)], { format: "f32" });
}

/** f32 rows for a linear to read. */
export function activation(
  device: Device,
  rows: number,
  columns: number,
  values: readonly number[],
): Activation {
  const out = device.allocateActivation("f32", rows, columns);
  device.convert({ count: rows, out, x: floats(device, [rows, columns], values) });
  return out;
}

/** What a tensor or activation holds, rounded to 5 places for comparing with hand-made numbers. */
export async function read(device: Device, handle: DeviceTensor | Activation): Promise<number[]> {
  return Array.from(await device.readF32(handle), (value) => Math.round(value * 1e5) / 1e5 + 0);
}
