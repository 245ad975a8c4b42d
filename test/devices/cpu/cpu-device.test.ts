import { afterAll, describe, expect, test } from "vitest";
import type { WeightFormat, WeightSource } from "#devices";
import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { cpuDevices, randomFloats, sourceOf } from "./linear-material.ts";

const devices = cpuDevices();
afterAll(() => {
  for (const { device } of devices) device.dispose();
});

describe.for(devices)("memory on $isa", ({ device }) => {
  test("tensors start as zeros, keep what is written and share rows", async () => {
    const tensor = device.allocate("f32", [4, 3]);
    expect(await device.readF32(tensor)).toEqual(new Float32Array(12));
    device.write(tensor, Float32Array.of(1, 2, 3, 4), 5);
    const middle = device.rows(tensor, 1, 3);
    expect(await device.readF32(middle)).toEqual(Float32Array.of(0, 0, 1, 2, 3, 4));
    device.write(middle, Float32Array.of(9));
    expect((await device.readF32(tensor))[3]).toBe(9);

    const words = device.allocate("u32", [2]);
    device.write(words, Uint32Array.of(0xffffffff, 7));
    const integers = device.allocate("i32", [2]);
    device.write(integers, Int32Array.of(-5, 7));
    expect(await device.readI32(integers)).toEqual(Int32Array.of(-5, 7));
  });

  test("regions of all sizes are zero-filled again after others were released", async () => {
    for (const columns of [1, 1000, 600_000, 3_000_000]) {
      for (let round = 0; round < 2; round++) {
        const tensor = device.allocate("f32", [columns]);
        const read = await device.readF32(tensor);
        expect(read.every((value) => value === 0)).toBe(true);
        device.write(tensor, read.fill(1));
        device.release(tensor);
      }
    }
  });

  test("files' vectors of every element type become f32", () => {
    const values = randomFloats(37, 1).map((value) => Math.fround(Math.round(value * 16) / 16));
    return Promise.all(
      (["f32", "f16", "bf16"] as const).map(async (dtype) => {
        const loaded = device.load(sourceOf(values, [37], dtype));
        expect(await device.readF32(loaded)).toEqual(values);
      }),
    );
  });

  test("activations read back as the numbers they were rounded to", async () => {
    const values = randomFloats(3 * 200, 2);
    const x = device.allocate("f32", [3, 200]);
    device.write(x, values);
    const eight = 0.5 / 127;
    const tolerances: Record<WeightFormat, number> = {
      f32: 0,
      bf16: 2 ** -9,
      i8: eight,
      q8: eight,
    };
    for (const format of device.weightFormats) {
      const out = device.allocateActivation(format, 3, 200);
      device.convert({ count: 3, out, x });
      const read = await device.readF32(out);
      const worst = values.reduce((most, v, i) => Math.max(most, Math.abs(v - (read[i] ?? 9))), 0);
      expect(worst).toBeLessThanOrEqual(tolerances[format] * 1.0001);
    }
  });

  test("gives every source back to the system after it was packed", () => {
    const given: string[] = [];
    const source = (name: string): WeightSource => ({
      ...sourceOf(randomFloats(6, 3), [2, 3]),
      name,
      discard: () => given.push(name),
    });
    const matrix = device.pack([source("q"), source("k")], { format: "bf16" });
    expect([matrix.rows, matrix.columns, given]).toEqual([4, 3, ["q", "k"]]);
    expect(matrix.bytes).toBeGreaterThanOrEqual(4 * 3 * 2);
    device.release(matrix);
  });

  test("refuses what does not fit into memory, with both numbers", () => {
    expect(() => device.allocate("f32", [2 ** 40, 16])).toThrow(/Cannot allocate .* available/);
    const options = { format: "f16", layers: 80, blocks: 2 ** 30, blockTokens: 16 } as const;
    expect(() => device.allocateKvPool({ ...options, kvHeads: 8, headDim: 128 })).toThrow(
      "use a smaller model",
    );
  });

  test("refuses a file that is shorter than its shape", () => {
    const source = { ...sourceOf(randomFloats(5, 4), [2, 3]) };
    expect(() => device.pack([source], { format: "f32" })).toThrow("24 bytes wanted");
    expect(() => device.load(source)).toThrow("24 bytes wanted");
  });

  test("refuses to release twice, and memory of another device", () => {
    const tensor = device.allocate("f32", [1]);
    device.release(tensor);
    expect(() => device.release(tensor)).toThrow("Cannot release memory");
    const other = CpuDevice.open({ threads: 1 });
    const foreign = other.allocate("f32", [1]);
    expect(() => device.release(foreign)).toThrow("Cannot release memory");
    other.dispose();
    other.dispose();
  });
});

describe.for(devices)("replays on $isa", ({ device }) => {
  const weight = device.pack([sourceOf(randomFloats(64 * 96, 1), [64, 96])], { format: "bf16" });
  const x = device.allocate("f32", [3, 96]);
  const input = device.allocateActivation("bf16", 3, 96);
  const out = device.allocate("f32", [3, 64]);
  let calls = 0;
  const multiply = (count: number) => () => {
    calls++;
    device.convert({ count, out: input, x });
    device.linear({ count, out, x: input, weight });
  };

  test("repeat what was called under a key, on what memory holds then", async () => {
    calls = 0;
    for (const seed of [2, 3, 4]) {
      device.write(x, randomFloats(3 * 96, seed));
      multiply(3)();
      const wanted = await device.readF32(out);
      device.write(out, new Float32Array(3 * 64));
      device.replay("product of 3", multiply(3));
      expect(await device.readF32(out)).toEqual(wanted);
    }
    // Three times without a key, once to be kept.
    expect(calls).toBe(4);
  });

  test("of other keys are others", async () => {
    device.write(out, new Float32Array(3 * 64));
    device.replay("product of 1", multiply(1));
    device.write(out, new Float32Array(3 * 64));
    device.replay("product of 1", multiply(1));
    const values = await device.readF32(out);
    expect(values.subarray(0, 64).some((value) => value !== 0)).toBe(true);
    expect(values.subarray(64).every((value) => value === 0)).toBe(true);
  });

  test("keep nothing of what failed", async () => {
    const fail = () => {
      multiply(2)();
      throw new Error("no more");
    };
    expect(() => device.replay("failing", fail)).toThrow("no more");
    device.write(out, new Float32Array(3 * 64));
    multiply(3)();
    const wanted = await device.readF32(out);
    device.replay("failing", multiply(3));
    device.write(out, new Float32Array(3 * 64));
    device.replay("failing", multiply(3));
    expect(await device.readF32(out)).toEqual(wanted);
  });

  test("forget all keys, once they are many", async () => {
    for (let key = 0; key < 600; key++) device.replay(`key ${key}`, multiply(1));
    calls = 0;
    device.replay("key 599", multiply(1));
    expect(calls).toBe(0);
    device.replay("key 0", multiply(1));
    expect(calls).toBe(1);
  });
});
