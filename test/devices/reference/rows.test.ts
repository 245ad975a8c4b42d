/** Ops that move or pool whole rows: convert, add, gather-rows, join-rows, mean-pool, softcap. */
import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { floats, integers, read } from "./sources.ts";

const device = new ReferenceDevice();

test("convert rounds to the format of its target", async () => {
  const x = floats(device, [1, 2], [1, 1 + 2 ** -9]); // the last bit is beyond bf16
  const out = device.allocateActivation("bf16", 1, 2);
  device.convert({ count: 1, out, x });
  expect(await device.readF32(out)).toEqual(Float32Array.of(1, 1));
});

test("add changes the first operand in place, up to count", async () => {
  const x = floats(device, [2, 1], [1, 2]);
  device.add({ count: 1, x, delta: floats(device, [2, 1], [10, 20]) });
  expect(await read(device, x)).toEqual([11, 2]);
});

test("add applies a function to what it adds", async () => {
  const x = floats(device, [1, 3], [1, 2, 3]);
  device.add({ count: 1, x, delta: floats(device, [1, 3], [10, -20, 0]), kind: "relu" });
  expect(await read(device, x)).toEqual([11, 2, 3]);
});

test("gather-rows copies rows by index", async () => {
  const out = device.allocate("f32", [2, 2]);
  const x = floats(device, [3, 2], [1, 2, 3, 4, 5, 6]);
  device.gatherRows({ count: 2, out, x, indices: integers(device, [2, 0]) });
  expect(await read(device, out)).toEqual([5, 6, 1, 2]);
});

test("join-rows puts a row beside another, and repeats the left ones", async () => {
  const left = floats(device, [2, 1], [1, 2]);
  const right = floats(device, [3, 2], [-3, 3, 4, -4, 5, 5]);
  const out = device.allocate("f32", [3, 3]);
  device.joinRows({ count: 2, out, left, right });
  expect(await read(device, out)).toEqual([1, -3, 3, 2, 4, -4, 0, 0, 0]);
  const rightIndices = integers(device, [2, 0, 1]);
  device.joinRows({ count: 3, out, left, leftRepeat: 2, right, rightIndices, rightKind: "relu" });
  expect(await read(device, out)).toEqual([1, 5, 5, 1, 0, 3, 2, 4, 0]);
});

test("mean-pool averages each sequence, and brings it to length 1 when asked", async () => {
  const out = device.allocate("f32", [2, 2]);
  const x = floats(device, [3, 2], [0, 0, 6, 8, 5, 0]);
  const starts = integers(device, [0, 2, 3]);
  device.meanPool({ out, x, starts, sequences: 2, normalize: false });
  expect(await read(device, out)).toEqual([3, 4, 5, 0]);
  device.meanPool({ out, x, starts, sequences: 2, normalize: true });
  expect(await read(device, out)).toEqual([0.6, 0.8, 1, 0]);
});

test("softcap bends values towards the cap", async () => {
  const x = floats(device, [1, 3], [0, 30, -3000]);
  device.softcap({ count: 1, x, cap: 30 });
  expect(await read(device, x)).toEqual([0, 22.84782, -30]);
});
