import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { floats, integers, read } from "./sources.ts";

test("every token sees all of its own sequence, and nothing of others", async () => {
  const device = new ReferenceDevice();
  const out = device.allocateActivation("f32", 3, 1);
  device.encoderAttention({
    ...{ count: 3, out, heads: 1, headDim: 1, sequences: 2, scale: 1 },
    qkv: floats(device, [3, 3], [1, 0, 2, 1, 0, 4, 1, 0, 7]), // keys 0: equal weights
    starts: integers(device, [0, 2, 3]),
  });
  expect(await read(device, out)).toEqual([3, 3, 7]);
});
