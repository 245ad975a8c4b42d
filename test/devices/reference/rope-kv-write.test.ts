import { expect, test } from "vitest";
import { ReferenceDevice, type RopeKvWriteInput } from "#devices";
import { activation, floats, integers, read } from "./sources.ts";

const device = new ReferenceDevice();
const cacheShape = { layers: 1, blocks: 2, blockTokens: 2, kvHeads: 1 } as const;

/** One token of one head at position 1, in slot 3. */
function write(values: number[], options: Partial<RopeKvWriteInput> & { headDim: number }) {
  const { headDim, ...rest } = options;
  const cache = device.allocateKvPool({ ...cacheShape, headDim, format: "f32" });
  const query = device.allocate("f32", [1, headDim]);
  device.ropeKvWrite({
    ...{ count: 1, query, heads: 1, cache, layer: 0 },
    qkv: floats(device, [1, 3 * headDim], values),
    positions: integers(device, [1]),
    slots: integers(device, [3]),
    ...rest,
  });
  return { cache, query };
}

/** The value in the cache that a query sees that looks at slot 3 alone. */
async function valueInSlot3(cache: RopeKvWriteInput["cache"], query: number[]): Promise<number[]> {
  const out = device.allocateActivation("f32", 1, query.length);
  device.pagedAttention({
    ...{ count: 1, out, heads: 1, cache, layer: 0, scale: 1, window: 1 },
    query: floats(device, [1, query.length], query),
    batch: {
      sequences: 1,
      queryStarts: integers(device, [0, 1]),
      contextLengths: integers(device, [2]),
      blockTables: integers(device, [1], [1, 1]),
      queryLengthMax: 1,
      contextLengthMax: 2,
    },
  });
  return read(device, out);
}

test("turns the pair (i, i + half) by the angle of the token's position", async () => {
  const quarter = floats(device, [2, 2], [1, 0, 0, 1]); // position 1: cosine 0, sine 1
  const { query } = write([3, 4, 0, 0, 0, 0], { headDim: 2, rope: quarter });
  expect(await read(device, query)).toEqual([-4, 3]);
});

test("queries of sinks turn no further than the cache's last place; keys do", async () => {
  const quarters = floats(device, [2, 2], [1, 0, 0, 1]);
  const out = device.allocate("f32", [1, 2]);
  const given = { headDim: 2, rope: quarters };
  const { query } = write([3, 4, 0, 0, 0, 0], { ...given, sinkQuery: { out, positionMax: 0 } });
  expect(await read(device, query)).toEqual([-4, 3]);
  expect(await read(device, out)).toEqual([3, 4]);
  write([3, 4, 0, 0, 0, 0], { ...given, sinkQuery: { out, positionMax: 5 } });
  expect(await read(device, out)).toEqual([-4, 3]);
});

test("passes dimensions beyond the rotary ones through", async () => {
  const quarter = floats(device, [2, 2], [1, 0, 0, 1]);
  const qkv = [3, 4, 5, 6, ...Array<number>(8).fill(0)];
  const { query } = write(qkv, { headDim: 4, rope: quarter });
  expect(await read(device, query)).toEqual([-4, 3, 5, 6]);
});

test("leaves heads as they are without a table", async () => {
  const { query, cache } = write([1, 2, 3, 4, 5, 6], { headDim: 2 });
  expect(await read(device, query)).toEqual([1, 2]);
  expect(await valueInSlot3(cache, [1, 1])).toEqual([5, 6]);
});

test("normalises each head before it turns", async () => {
  const norm = floats(device, [2], [1, 2]);
  const { query } = write([3, 4, 0, 0, 0, 0], { headDim: 2, queryNorm: norm, normEpsilon: 0 });
  expect(await read(device, query)).toEqual([0.84853, 2.26274]);
});

test("writes nothing for a negative slot", async () => {
  const { cache } = write([1, 2, 3, 4, 5, 6], { headDim: 2, slots: integers(device, [-1]) });
  expect(await valueInSlot3(cache, [1, 1])).toEqual([0, 0]);
});

test.for([
  ["bf16", 0.333984375],
  ["f16", 0.333251953125],
] as const)("keeps values rounded to %s", async ([format, rounded]) => {
  const cache = device.allocateKvPool({ ...cacheShape, headDim: 1, format });
  write([0, 0, 1 / 3], { headDim: 1, cache });
  const out = await valueInSlot3(cache, [1]);
  expect(out).toEqual([Math.round(rounded * 1e5) / 1e5]);
});

test("an activation of f32 reads back what was written", async () => {
  expect(await read(device, activation(device, 1, 2, [1, 2]))).toEqual([1, 2]);
});
