/** Random matrices and rows for the tests of products, the same for every device. */
import { seedFrom, uniformAt } from "#base";
import type { Activation, Device, WeightSource } from "#devices";
import { narrow } from "#tensor";
import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { availableIsas, type Isa } from "../../../src/devices/cpu/isa.ts";
import { isBuilt } from "../../../src/devices/cpu/library.ts";

/** `count` numbers in [-1, 1) that depend on the seed alone. */
export function randomFloats(count: number, seed: number): Float32Array {
  const key = seedFrom(seed);
  return Float32Array.from({ length: count }, (_, i) => uniformAt(key, i) * 2 - 1);
}

/** A file's matrix with these values. */
export function sourceOf(
  values: Float32Array,
  shape: readonly number[],
  dtype: WeightSource["dtype"] = "f32",
): WeightSource {
  const bytes = () => {
    if (dtype === "f32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    const halves = new Uint16Array(values.length);
    narrow(halves, values, dtype);
    return new Uint8Array(halves.buffer);
  };
  return { name: `random ${shape.join("x")}`, dtype, shape, bytes, discard: () => {} };
}

/** Rows in a weight format, rounded by the device itself. */
export function activationOf(
  device: Device,
  format: Activation["format"],
  values: Float32Array,
  rows: number,
): Activation {
  const columns = values.length / rows;
  const x = device.allocate("f32", [rows, columns]);
  const out = device.allocateActivation(format, rows, columns);
  device.write(x, values);
  device.convert({ count: rows, out, x });
  return out;
}

/** A device per instruction set that this machine has. */
export function cpuDevices(): readonly { readonly isa: Isa; readonly device: CpuDevice }[] {
  return availableIsas()
    .filter(isBuilt)
    .map((isa) => ({ isa, device: CpuDevice.open({ isa, threads: 2 }) }));
}

/** Largest difference, relative to `scale`. */
export function worstError(actual: Float32Array, wanted: Float32Array, scale: number): number {
  return actual.reduce(
    (worst, value, i) => Math.max(worst, Math.abs(value - (wanted[i] ?? Number.NaN)) / scale),
    0,
  );
}
