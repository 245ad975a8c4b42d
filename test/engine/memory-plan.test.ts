import { expect, test } from "vitest";
import { EngineOptions, type LoadOptions } from "#engine";
import { GRAPH_BYTES, kvFormatFor, poolBlocks } from "../../src/engine/thread/memory-plan.ts";

const block = { bytes: 2 * 4 * 16 * 2 * 64 * 2, blockTokens: 16, groups: 1 };
const GIB = 2 ** 30;

function blocksWith(kvCache: object, availableBytes = 64 * GIB, contextTokensMax = 4096): number {
  const options = EngineOptions.parse({ kvCache });
  const totalBytes = 64 * GIB;
  const accelerator = false;
  return poolBlocks(block, options, { contextTokensMax, totalBytes, availableBytes, accelerator });
}

test("keys and values are kept as asked, else as exact as the weights", () => {
  const formatOf = (dtype: string, weights: "f32" | "bf16") =>
    kvFormatFor(EngineOptions.parse({ kvCache: { dtype } }), weights);
  const asked = ["float32", "float16", "bfloat16", "int8", "fp8"].map((dtype) =>
    formatOf(dtype, "bf16"),
  );
  expect(asked).toEqual(["f32", "f16", "bf16", "i8", "fp8"]);
  expect([formatOf("auto", "f32"), formatOf("auto", "bf16")]).toEqual(["f32", "bf16"]);
});

test("the default pool takes at most 1 GiB, 30 % of what is free, and what can be used", () => {
  expect(blocksWith({})).toBe(Math.floor(GIB / block.bytes));
  expect(blocksWith({}, GIB)).toBe(Math.floor((GIB * 0.3) / block.bytes));
  expect(blocksWith({}, 64 * GIB, 160)).toBe(10 * 256);
});

test("a GPU is used up to the configured share, other processes included", () => {
  const blocksOnGpu = (options: LoadOptions, freeGib = 48, contextTokensMax = 131_072) => {
    const memory = { totalBytes: 64 * GIB, availableBytes: freeGib * GIB };
    const room = { contextTokensMax, ...memory, accelerator: true };
    return poolBlocks(block, EngineOptions.parse(options), room);
  };
  const blocksIn = (bytes: number) => Math.floor(bytes / block.bytes);
  expect(blocksOnGpu({})).toBe(blocksIn(64 * GIB * 0.9 - 16 * GIB));
  expect(blocksOnGpu({ gpuMemoryUtilization: 0.5 })).toBe(blocksIn(16 * GIB));
  expect(blocksOnGpu({ gpuMemoryUtilization: 1 })).toBe(blocksIn(48 * GIB - GRAPH_BYTES));
  expect(blocksOnGpu({ kvCache: { poolBytes: GIB } })).toBe(blocksIn(GIB));
  expect(blocksOnGpu({}, 48, 160)).toBe(10 * 256);
  expect(() => blocksOnGpu({ gpuMemoryUtilization: 0.25 })).toThrow(
    `gpuMemoryUtilization 0.25 lets ${16 * GIB} of the GPU's ${64 * GIB} bytes be used, ` +
      `${16 * GIB} are`,
  );
});

test("a pool that was asked for is given, or refused with the numbers", () => {
  expect(blocksWith({ poolBytes: 10 * block.bytes }, GIB, 16)).toBe(10);
  expect(() => blocksWith({ poolBytes: 2 * GIB }, GIB)).toThrow(
    `must be at most the ${GIB} bytes of memory that are free, current value is ${2 * GIB}`,
  );
  expect(() => blocksWith({ poolBytes: 100 })).toThrow(
    `must be at least the ${block.bytes} bytes of one block, current value is 100`,
  );
  expect(() => blocksWith({}, 100)).toThrow(`one block takes ${block.bytes} bytes`);
});
