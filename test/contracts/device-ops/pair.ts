import { expect } from "vitest";
import {
  type Activation,
  type Device,
  type DeviceTensor,
  ReferenceDevice,
  type WeightFormat,
} from "#devices";
import type { Shape } from "#tensor";
import { expectSameBits } from "../../support/same-bits.ts";

/** The same thing on the definition's device and on the one under test. */
export interface Both<T> {
  readonly defined: T;
  readonly tested: T;
}

/** Takes the side of a `Both` that an op runs on. */
export type Pick = <T>(both: Both<T>) => T;

/** How far a result may be from its definition. */
export interface Tolerance {
  readonly absolute: number;
  /** Of the definition's value. */
  readonly relative: number;
}

/** The definition and a device under test, given the same memory and the same ops. */
export class DevicePair {
  readonly defined: Device = new ReferenceDevice();
  readonly tested: Device;

  constructor(tested: Device) {
    this.tested = tested;
  }

  make<T>(build: (device: Device) => T): Both<T> {
    return { defined: build(this.defined), tested: build(this.tested) };
  }

  f32(shape: Shape, data?: ArrayLike<number>): Both<DeviceTensor> {
    return this.make((device) => {
      const tensor = device.allocate("f32", shape);
      if (data !== undefined && data.length > 0) device.write(tensor, new Float32Array(data));
      return tensor;
    });
  }

  i32(data: ArrayLike<number>, shape: Shape = [data.length]): Both<DeviceTensor> {
    return this.make((device) => {
      const tensor = device.allocate("i32", shape);
      if (data.length > 0) device.write(tensor, Int32Array.from(data));
      return tensor;
    });
  }

  u32(data: ArrayLike<number>, shape: Shape = [data.length]): Both<DeviceTensor> {
    return this.make((device) => {
      const tensor = device.allocate("u32", shape);
      device.write(tensor, Uint32Array.from(data));
      return tensor;
    });
  }

  activation(format: WeightFormat, rows: number, columns: number): Both<Activation> {
    return this.make((device) => device.allocateActivation(format, rows, columns));
  }

  /** Runs an op on both devices. */
  run(op: (device: Device, pick: Pick) => void): void {
    op(this.defined, (both) => both.defined);
    op(this.tested, (both) => both.tested);
  }

  async expectClose(result: Both<DeviceTensor | Activation>, tolerance: Tolerance): Promise<void> {
    const wanted = await this.defined.readF32(result.defined);
    const actual = await this.tested.readF32(result.tested);
    expect(worstExcess(actual, wanted, tolerance)).toBeLessThanOrEqual(0);
  }

  async expectEqual(result: Both<DeviceTensor>): Promise<void> {
    const wanted = await this.defined.readI32(result.defined);
    expectSameBits(await this.tested.readI32(result.tested), wanted);
  }

  dispose(): void {
    this.defined.dispose();
    this.tested.dispose();
  }
}

/** How far the worst element is outside its tolerance; 0 when none is. NaN must meet NaN. */
function worstExcess(actual: Float32Array, wanted: Float32Array, tolerance: Tolerance): number {
  expect(actual.length).toBe(wanted.length);
  let worst = 0;
  wanted.forEach((value, i) => {
    const other = actual[i] ?? Number.NaN;
    if (Object.is(value, other) || value === other) return;
    const allowed = tolerance.absolute + tolerance.relative * Math.abs(value);
    const excess = Math.abs(other - value) - allowed;
    worst = Number.isNaN(excess) ? Number.POSITIVE_INFINITY : Math.max(worst, excess);
  });
  return worst;
}

/**
 * What rounding a result to `format` may add to its own error: a value next to a rounding boundary
 * falls to its other side. `largest`: of the row, which sets the step of i8.
 */
export function formatTolerance(format: WeightFormat, own: Tolerance, largest: number): Tolerance {
  if (format === "f32") return own;
  if (format === "bf16") return { absolute: own.absolute, relative: own.relative + 2 ** -7 };
  return { absolute: own.absolute + largest / 127 + 1e-6, relative: own.relative + 1e-6 };
}
