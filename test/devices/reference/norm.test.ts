import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { floats, read } from "./sources.ts";

const device = new ReferenceDevice();

test("RMS norm divides by the root of the mean square", async () => {
  const out = device.allocate("f32", [1, 2]);
  const x = floats(device, [1, 2], [3, 4]); // mean square 12.5
  const weight = floats(device, [2], [1, 10]);
  device.norm({ count: 1, kind: "rms", out, x, weight, epsilon: 0 });
  expect(await read(device, out)).toEqual([0.84853, 11.31371]);
});

test("Gemma's weights are stored less 1", async () => {
  const out = device.allocate("f32", [1, 2]);
  const x = floats(device, [1, 2], [1, 1]);
  const weight = floats(device, [2], [0, 2]);
  device.norm({ count: 1, kind: "rms", out, x, weight, epsilon: 0, weightOffset: 1 });
  expect(await read(device, out)).toEqual([1, 3]);
});

test("layer norm takes the mean away, then scales and shifts", async () => {
  const out = device.allocate("f32", [1, 2]);
  const x = floats(device, [1, 2], [1, 5]); // mean 3, variance 4
  const weight = floats(device, [2], [1, 2]);
  const bias = floats(device, [2], [0, 100]);
  device.norm({ count: 1, kind: "layer", out, x, weight, bias, epsilon: 0 });
  expect(await read(device, out)).toEqual([-1, 102]);
});

test("epsilon keeps a row of zeros finite", async () => {
  const out = device.allocate("f32", [1, 2]);
  const x = floats(device, [1, 2], [0, 0]);
  const weight = floats(device, [2], [1, 1]);
  device.norm({ count: 1, kind: "rms", out, x, weight, epsilon: 1e-6 });
  expect(await read(device, out)).toEqual([0, 0]);
});

test("a delta is added to x for good before x is normalised", async () => {
  const out = device.allocate("f32", [1, 2]);
  const x = floats(device, [1, 2], [1, 0]);
  const delta = floats(device, [1, 2], [1, 2]);
  const weight = floats(device, [2], [1, 1]);
  device.norm({ count: 1, kind: "rms", out, x, delta, weight, epsilon: 0 });
  expect(await read(device, x)).toEqual([2, 2]);
  expect(await read(device, out)).toEqual([1, 1]);
});
