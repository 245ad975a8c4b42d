import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { floats, integers, matrix, read } from "./sources.ts";

const device = new ReferenceDevice();
const table = matrix(device, 3, 2, [1, 2, 3, 4, 5, 6]);

test("looks up rows of a matrix and scales them", async () => {
  const out = device.allocate("f32", [2, 2]);
  device.embed({ count: 2, out, ids: integers(device, [2, 0]), table, scale: 10 });
  expect(await read(device, out)).toEqual([50, 60, 10, 20]);
});

test("adds rows of a tensor, counted from an offset, to what is there", async () => {
  const out = floats(device, [1, 2], [100, 200]);
  const positions = floats(device, [3, 2], [1, 2, 3, 4, 5, 6]);
  const ids = integers(device, [0]);
  device.embed({ count: 1, out, ids, table: positions, offset: 2, accumulate: true });
  expect(await read(device, out)).toEqual([105, 206]);
});

test("leaves rows from count on alone", async () => {
  const out = floats(device, [2, 2], [7, 7, 7, 7]);
  device.embed({ count: 1, out, ids: integers(device, [1, 1]), table });
  expect(await read(device, out)).toEqual([3, 4, 7, 7]);
});
