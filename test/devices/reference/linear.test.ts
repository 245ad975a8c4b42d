import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { activation, floats, matrix, read, tensorSource } from "./sources.ts";

const device = new ReferenceDevice();

test("multiplies rows by a matrix and adds the bias", async () => {
  const out = device.allocate("f32", [2, 2]);
  const x = activation(device, 2, 2, [1, 2, 3, 4]);
  const weight = matrix(device, 2, 2, [1, 0, 1, 1]);
  device.linear({ count: 2, out, x, weight, bias: floats(device, [2], [10, 20]) });
  expect(await read(device, out)).toEqual([11, 23, 13, 27]);
});

test("accumulates into what is there", async () => {
  const out = floats(device, [1, 1], [100]);
  const x = activation(device, 1, 2, [1, 2]);
  const weight = matrix(device, 1, 2, [3, 4]);
  device.linear({ count: 1, out, x, weight, accumulate: true });
  expect(await read(device, out)).toEqual([111]);
});

test("stacks sources by rows", async () => {
  const out = device.allocate("f32", [1, 3]);
  const sources = [tensorSource("a", [1, 2], [1, 0]), tensorSource("b", [2, 2], [0, 1, 1, 1])];
  const weight = device.pack(sources, { format: "f32" });
  device.linear({ count: 1, out, x: activation(device, 1, 2, [5, 7]), weight });
  expect(await read(device, out)).toEqual([5, 7, 12]);
});

test("reads a transposed source by columns", async () => {
  const out = device.allocate("f32", [1, 3]);
  const source = tensorSource("conv", [2, 3], [1, 2, 3, 10, 20, 30]);
  const weight = device.pack([source], { format: "f32", transposed: true });
  device.linear({ count: 1, out, x: activation(device, 1, 2, [1, 1]), weight });
  expect(await read(device, out)).toEqual([11, 22, 33]);
});

test("bf16 rounds weights and rows to nearest even, and nothing else", async () => {
  const out = device.allocate("f32", [1, 1]);
  const x = device.allocateActivation("bf16", 1, 2);
  const third = 1 / 3; // 0.333984375 in bf16
  device.convert({ count: 1, out: x, x: floats(device, [1, 2], [third, 1]) });
  const weight = device.pack([tensorSource("w", [1, 2], [third, third])], { format: "bf16" });
  device.linear({ count: 1, out, x, weight });
  const rounded = 0.333984375;
  expect((await device.readF32(out))[0]).toBe(Math.fround(rounded * rounded + rounded));
});

test("refuses rows of another format than the matrix", () => {
  const out = device.allocate("f32", [1, 1]);
  const x = device.allocateActivation("i8", 1, 2);
  const weight = matrix(device, 1, 2, [1, 1]);
  expect(() => device.linear({ count: 1, out, x, weight })).toThrow("Cannot multiply i8 rows");
});
