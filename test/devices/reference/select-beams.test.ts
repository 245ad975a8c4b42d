import { expect, test } from "vitest";
import { type DeviceTensor, ReferenceDevice } from "#devices";
import { floats, integers, read } from "./sources.ts";

const device = new ReferenceDevice();
const nan = Number.NaN;
const low = Number.NEGATIVE_INFINITY;

/** The beams that are selected: sums, tokens, rows of the beams before. */
async function select(input: {
  readonly before: number;
  readonly width: number;
  readonly topTokens: DeviceTensor;
  readonly topLogprobs: DeviceTensor;
  readonly scores?: DeviceTensor;
  readonly tokenMap?: DeviceTensor;
}): Promise<readonly number[][]> {
  const count = (input.topTokens.shape[0] ?? 0) / input.before;
  const beams = count * input.width;
  const outScores = device.allocate("f32", [beams]);
  const [tokens, parents] = [device.allocate("i32", [beams]), device.allocate("i32", [beams])];
  device.selectBeams({ ...input, count, outScores, tokens, parents });
  const integersOf = async (tensor: DeviceTensor) => Array.from(await device.readI32(tensor));
  return [await read(device, outScores), await integersOf(tokens), await integersOf(parents)];
}

test("a root's likeliest tokens become its beams", async () => {
  const topTokens = integers(device, [7, 5, 6], [1, 3]);
  const topLogprobs = floats(device, [1, 3], [-0.5, -1, -2]);
  expect(await select({ before: 1, width: 2, topTokens, topLogprobs })).toEqual([
    [-0.5, -1],
    [7, 5],
    [0, 0],
  ]);
});

test("each sequence keeps its own likeliest beams, with the model's tokens", async () => {
  const topTokens = integers(device, [0, 1, 2, 0, 1, 2, 2, 1], [4, 2]);
  const topLogprobs = floats(device, [4, 2], [-1, -4, -1, -2, -1, -2, -0.5, -3]);
  const scores = floats(device, [4], [-1, -3, 0, -9]);
  const tokenMap = integers(device, [100, 101, 102]);
  const input = { before: 2, width: 3, topTokens, topLogprobs, scores, tokenMap };
  expect(await select(input)).toEqual([
    [-2, -4, -5, -1, -2, -9.5],
    [100, 102, 101, 101, 102, 102],
    [0, 1, 0, 2, 2, 3],
  ]);
});

test("equal sums go by rising beam, then rising place; NaN comes last", async () => {
  const topTokens = integers(device, [0, 1, 2, 3, 4, 5], [2, 3]);
  const topLogprobs = floats(device, [2, 3], [nan, -1, low, -1, -1, low]);
  expect(await select({ before: 2, width: 6, topTokens, topLogprobs })).toEqual([
    [-1, -1, -1, low, low, nan],
    [1, 3, 4, 2, 5, 0],
    [0, 1, 1, 0, 1, 0],
  ]);
});

test("counts that do not fit each other are a bug", async () => {
  const topTokens = integers(device, [0, 1], [1, 2]);
  const topLogprobs = floats(device, [1, 2], [0, 0]);
  const few = select({ before: 1, width: 3, topTokens, topLogprobs });
  await expect(few).rejects.toThrow("3 to 256 candidates wanted, current value is 2");
});
