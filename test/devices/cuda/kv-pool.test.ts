import { expect, test } from "vitest";
import type { KvBlockOptions, KvFormat } from "#devices";
import { CudaKvPool, KV_LAYER, kvBytesPerBlock } from "../../../src/devices/cuda/memory/kv-pool.ts";

const llama = { layers: 32, blockTokens: 16, kvHeads: 8, headDim: 128 };
/** Of keys and values of all layers. */
const elements = 32 * 8 * 16 * 2 * 128;
const calibrated = { key: new Float32Array(32).fill(0.5), value: new Float32Array(32).fill(0.25) };

const sizes: readonly (readonly [KvFormat, number])[] = [
  ["f32", 4 * elements],
  ["f16", 2 * elements],
  ["bf16", 2 * elements],
  // A byte per element, and a scale of two bytes for each 128 of them.
  ["i8", elements + 32 * 8 * 16 * 2 * 2],
  ["fp8", elements + 32 * 8 * 16 * 2 * 2],
];

test.for(sizes)("a block of a common model takes what its numbers take: %s", ([format, bytes]) => {
  expect(kvBytesPerBlock({ ...llama, format })).toBe(bytes);
});

test("calibrated scales take no room in blocks, and are part of the layout's name", () => {
  const options: KvBlockOptions = { ...llama, format: "i8", scales: calibrated };
  expect(kvBytesPerBlock(options)).toBe(elements);
  const own = new CudaKvPool({ ...llama, format: "i8", blocks: 1 }, 0n);
  const shared = new CudaKvPool({ ...options, blocks: 1 }, 0n);
  expect(own.layout).not.toBe(shared.layout);
});

test("keys and values begin at multiples of 16 bytes, whatever the head's size", () => {
  const odd = { layers: 3, blockTokens: 4, kvHeads: 2, headDim: 21 };
  // 21 halves are padded to 24.
  expect(kvBytesPerBlock({ ...odd, format: "bf16" })).toBe(3 * 2 * 2 * 4 * 48);
  // 21 bytes are padded to 32; four scales of keys and four of values fill 16.
  expect(kvBytesPerBlock({ ...odd, format: "i8" })).toBe(3 * 2 * (2 * 4 * 32 + 16));
  // A block of one token: its two scales are padded.
  expect(kvBytesPerBlock({ ...odd, format: "i8", blockTokens: 1 })).toBe(3 * 2 * (2 * 32 + 16));
});

test("a layer's fields name its own part of the blocks and its scales", () => {
  const cache = new CudaKvPool(
    {
      ...llama,
      format: "fp8",
      blocks: 2,
      scales: { ...calibrated, key: Float32Array.from({ length: 32 }, (_, i) => i + 1) },
    },
    4096n,
  );
  const fields = cache.layerParams({ layer: 3 });
  expect(fields.length).toBe(KV_LAYER.length);
  const headBytes = 2 * 16 * 128;
  expect(fields).toEqual([
    ...[4096n + BigInt(3 * 8 * headBytes), 32 * 8 * headBytes, headBytes],
    ...[4, 16, 8, 128, 128, 0, 4, 0.25],
  ]);
  expect(() => cache.layerParams({ layer: 32 })).toThrow("Cannot use layer 32: 32 exist");
});

test("formats without scales multiply by 1, and tokens' own scales are announced", () => {
  const fieldsOf = (format: KvFormat) =>
    new CudaKvPool({ ...llama, format, blocks: 1 }, 0n).layerParams({ layer: 0 }).slice(-3);
  expect(fieldsOf("bf16")).toEqual([0, 1, 1]);
  expect(fieldsOf("i8")).toEqual([1, 1, 1]);
});
