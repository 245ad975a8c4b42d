import { expect, test } from "vitest";
import { EngineOptions } from "#engine";
import { bytesPerBlock, poolBlocks } from "../../src/engine/memory-plan.ts";

const shape = { layers: 4, blockTokens: 16, kvHeads: 2, headDim: 64, format: "bf16" } as const;
const GIB = 2 ** 30;

function blocksWith(kvCache: object, availableBytes = 64 * GIB, contextTokensMax = 4096): number {
  const options = EngineOptions.parse({ kvCache });
  return poolBlocks(shape, options, { contextTokensMax, availableBytes });
}

test("a block holds keys and values of its positions, for every layer", () => {
  expect(bytesPerBlock(shape)).toBe(2 * 4 * 16 * 2 * 64 * 2);
  expect(bytesPerBlock({ ...shape, format: "f32" })).toBe(2 * bytesPerBlock(shape));
});

test("the default pool takes at most 1 GiB, 30 % of what is free, and what can be used", () => {
  const size = bytesPerBlock(shape);
  expect(blocksWith({})).toBe(Math.floor(GIB / size));
  expect(blocksWith({}, GIB)).toBe(Math.floor((GIB * 0.3) / size));
  expect(blocksWith({}, 64 * GIB, 160)).toBe(10 * 256);
});

test("a pool that was asked for is given, or refused with the numbers", () => {
  expect(blocksWith({ poolBytes: 10 * bytesPerBlock(shape) }, GIB, 16)).toBe(10);
  expect(() => blocksWith({ poolBytes: 2 * GIB }, GIB)).toThrow(
    `poolBytes must be at most the ${GIB} bytes that are free, current value is ${2 * GIB}`,
  );
  expect(() => blocksWith({ poolBytes: 100 })).toThrow(
    `one block takes ${bytesPerBlock(shape)} bytes, there is room for 100`,
  );
});
