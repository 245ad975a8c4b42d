import { expect, test } from "vitest";
import { type AttentionBatch, type KvPool, ReferenceDevice } from "#devices";
import { floats, integers, read, words } from "./sources.ts";

const device = new ReferenceDevice();

/**
 * A cache of head size 1 in which every key is 0, so that all seen values weigh the same, and the
 * value of the token at place p of the sequence with blocks [3, 1] is 2^p.
 */
function cacheOfPowers(): KvPool {
  const cache = device.allocateKvPool({
    ...{ format: "f32", layers: 1, blocks: 4, blockTokens: 2, kvHeads: 1, headDim: 1 },
  });
  writeKv(cache, [6, 7, 2, 3], [0, 0, 0, 0], [1, 2, 4, 8]);
  return cache;
}

function writeKv(cache: KvPool, slots: number[], keys: number[], values: number[]): void {
  const count = slots.length;
  device.ropeKvWrite({
    ...{ count, heads: 1, cache, layer: 0, positions: integers(device, slots) },
    qkv: floats(
      device,
      [count, 3],
      keys.flatMap((key, i) => [0, key, values[i] ?? 0]),
    ),
    query: device.allocate("f32", [count, 1]),
    slots: integers(device, slots),
  });
}

function batchOf(queries: number, context: number, mask?: number[]): AttentionBatch {
  return {
    sequences: 1,
    queryStarts: integers(device, [0, queries]),
    contextLengths: integers(device, [context]),
    blockTables: integers(device, [3, 1], [1, 2]),
    queryLengthMax: queries,
    contextLengthMax: context,
    ...(mask && { treeMask: words(device, [queries, 1], mask) }),
  };
}

interface Case {
  readonly queries: number;
  readonly context: number;
  readonly window?: number;
  readonly mask?: number[];
  readonly sinks?: number;
}

/** Sums of the values that each query sees. */
async function seenSums(given: Case): Promise<number[]> {
  const count = given.queries;
  const out = device.allocateActivation("f32", count, 1);
  device.pagedAttention({
    ...{ count, out, heads: 1, cache: cacheOfPowers(), layer: 0, scale: 1 },
    query: floats(device, [count, 1], Array<number>(count).fill(1)),
    batch: batchOf(count, given.context, given.mask),
    ...(given.window !== undefined && { window: given.window }),
    ...(given.sinks !== undefined && {
      sinks: {
        tokens: given.sinks,
        query: floats(device, [count, 1], Array<number>(count).fill(1)),
      },
    }),
  });
  return read(device, out);
}

test("a query sees the places up to its own, through the block table", async () => {
  expect(await seenSums({ queries: 1, context: 3 })).toEqual([round(7 / 3)]);
});

test("later queries of a prompt see earlier tokens, and earlier ones do not see later tokens", async () => {
  expect(await seenSums({ queries: 4, context: 4 })).toEqual([1, 1.5, round(7 / 3), 3.75]);
});

test("a window keeps the last places, the query's own included", async () => {
  expect(await seenSums({ queries: 2, context: 4, window: 2 })).toEqual([3, 6]);
});

test("sinks take their places from the window, and are seen beside it", async () => {
  // Of values 1, 2, 4, 8 the last query sees the first, as a sink, and the last.
  expect(await seenSums({ queries: 4, context: 4, window: 2, sinks: 1 })).toEqual([
    1, 1.5, 2.5, 4.5,
  ]);
  const within = await seenSums({ queries: 4, context: 4, window: 4, sinks: 3 });
  expect(within).toEqual(await seenSums({ queries: 4, context: 4 }));
});

test("sinks are scored by their own query", async () => {
  const cache = device.allocateKvPool({
    ...{ format: "f32", layers: 1, blocks: 4, blockTokens: 2, kvHeads: 1, headDim: 1 },
  });
  writeKv(cache, [6, 7, 2], [1, Number.NaN, 1], [0, Number.NaN, 1]);
  const out = device.allocateActivation("f32", 1, 1);
  device.pagedAttention({
    ...{ count: 1, out, heads: 1, cache, layer: 0, scale: 1, batch: batchOf(1, 3), window: 2 },
    query: floats(device, [1, 1], [Math.log(3)]),
    sinks: { tokens: 1, query: floats(device, [1, 1], [0]) },
  });
  expect(await read(device, out)).toEqual([0.75]);
});

test("sinks without a window, as large as it, or under a tree mask are our bugs", async () => {
  const given = { queries: 1, context: 2 };
  await expect(seenSums({ ...given, sinks: 1 })).rejects.toThrow("a window is wanted");
  await expect(seenSums({ ...given, window: 2, sinks: 2 })).rejects.toThrow("1 to 1 tokens");
  await expect(seenSums({ ...given, window: 2, sinks: 0 })).rejects.toThrow("1 to 1 tokens");
  await expect(seenSums({ ...given, window: 2, sinks: 1, mask: [1] })).rejects.toThrow("tree mask");
});

test("a tree mask hides rows of the step one by one, and never the context", async () => {
  // Two drafted siblings after two tokens: the second does not see the first.
  const mask = [0b00, 0b01];
  expect(await seenSums({ queries: 2, context: 4, mask })).toEqual([round(7 / 3), round(11 / 3)]);
});

test("a window counts from a query's position: siblings of a tree have the same", async () => {
  const mask = [0b00, 0b01];
  expect(await seenSums({ queries: 2, context: 4, window: 2, mask })).toEqual([3, 5]);
});

test("weights are the softmax of scaled scores", async () => {
  const cache = device.allocateKvPool({
    ...{ format: "f32", layers: 1, blocks: 4, blockTokens: 2, kvHeads: 1, headDim: 1 },
  });
  writeKv(cache, [6, 7], [0, 1], [0, 1]);
  const out = device.allocateActivation("f32", 1, 1);
  const scale = Math.log(3); // the second key is three times as heavy
  device.pagedAttention({
    ...{ count: 1, out, heads: 1, cache, layer: 0, scale, batch: batchOf(1, 2) },
    query: floats(device, [1, 1], [1]),
  });
  expect(await read(device, out)).toEqual([0.75]);
  // A cap holds every score below it: here 0.5 * tanh(log(3) / 0.5).
  device.pagedAttention({
    ...{ count: 1, out, heads: 1, cache, layer: 0, scale, batch: batchOf(1, 2), softcap: 0.5 },
    query: floats(device, [1, 1], [1]),
  });
  const capped = Math.exp(0.5 * Math.tanh(scale / 0.5));
  expect(await read(device, out)).toEqual([round(capped / (1 + capped))]);
});

test("consecutive query heads share a kv head", async () => {
  const cache = device.allocateKvPool({
    ...{ format: "f32", layers: 1, blocks: 4, blockTokens: 2, kvHeads: 2, headDim: 1 },
  });
  device.ropeKvWrite({
    ...{ count: 1, heads: 4, cache, layer: 0, positions: integers(device, [0]) },
    qkv: floats(device, [1, 8], [0, 0, 0, 0, 0, 0, 5, 9]),
    query: device.allocate("f32", [1, 4]),
    slots: integers(device, [6]),
  });
  const out = device.allocateActivation("f32", 1, 4);
  const query = floats(device, [1, 4], [1, 1, 1, 1]);
  device.pagedAttention({
    ...{ count: 1, out, query, heads: 4, cache, layer: 0, scale: 1, batch: batchOf(1, 1) },
  });
  expect(await read(device, out)).toEqual([5, 5, 9, 9]);
});

function round(value: number): number {
  return Math.round(value * 1e5) / 1e5;
}
