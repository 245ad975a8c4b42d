import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { floats, integers, read } from "./sources.ts";

const device = new ReferenceDevice();

test("log-probability, rank and the likeliest tokens of each row", async () => {
  const chosen = device.allocate("f32", [1]);
  const ranks = device.allocate("i32", [1]);
  const topTokens = device.allocate("i32", [1, 3]);
  const topLogprobs = device.allocate("f32", [1, 3]);
  device.logprobs({
    ...{ count: 1, chosen, ranks, topCount: 3, topTokens, topLogprobs },
    logits: floats(device, [1, 4], [1, 4, 7, 1].map(Math.log)), // out of 13
    tokens: integers(device, [3]),
  });
  const least = -2.56495;
  expect(await read(device, chosen)).toEqual([least]);
  expect(await device.readI32(ranks)).toEqual(Int32Array.of(3));
  expect(await device.readI32(topTokens)).toEqual(Int32Array.of(2, 1, 0));
  expect(await read(device, topLogprobs)).toEqual([-0.61904, -1.17865, least]);
});

test("large logits do not overflow", async () => {
  const chosen = device.allocate("f32", [1]);
  const ranks = device.allocate("i32", [1]);
  const logits = floats(device, [1, 4], [1000, 1000, 1000, 1000]);
  device.logprobs({ count: 1, chosen, ranks, topCount: 0, logits, tokens: integers(device, [0]) });
  expect(await read(device, chosen)).toEqual([-1.38629]);
});
