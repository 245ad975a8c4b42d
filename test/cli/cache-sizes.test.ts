import { expect, test } from "vitest";
import { binarySize, cacheSizes, flushText, sizesText } from "../../src/cli/cache-sizes.ts";
import { ToyModel } from "../support/toy-model.ts";

const { info } = new ToyModel();
const level = {
  free: 0,
  held: 0,
  cached: 0,
  hitTokens: 0,
  offloaded: 0,
  copiedAhead: 0,
  onboarded: 0,
  forgotten: 0,
  dropped: 0,
  orphaned: 0,
  expired: 0,
};
const way = { blocks: 0, bytes: 0, seconds: 0 };
const report = {
  copiedBlocks: 0,
  swappedOutBlocks: 0,
  swappedInBlocks: 0,
  diskFailures: 0,
  kvByteSeconds: 0,
  peers: { sent: 34, received: 35, missed: 36 },
  sent: { bytes: 0, mapped: 0, nixl: 0 },
  fetched: { pieces: 0, seconds: 0 },
  moves: { copy: way, offload: way, onboard: way, diskWrite: way, diskRead: way },
};

test("sizes of all levels are told in blocks, tokens and bytes", () => {
  const levels = [
    { ...level, level: "device", total: 1024 },
    { ...level, level: "disk", total: 10 },
  ] as const;
  expect(sizesText(cacheSizes(info, { ...report, levels }))).toBe(
    "device 1024 blocks, 16384 tokens, 64.0 KiB; disk 10 blocks, 160 tokens, 640 bytes",
  );
});

test("a model without a cache has no sizes", () => {
  expect(cacheSizes(info, null)).toEqual([]);
});

test("bytes are told in binary units", () => {
  expect([0, 1023, 1024, 1.5 * 2 ** 30, 2 ** 50].map(binarySize)).toEqual([
    "0 bytes",
    "1023 bytes",
    "1.0 KiB",
    "1.5 GiB",
    "1024.0 TiB",
  ]);
});

test("a flush is told with what is missing, and which setting would change that", () => {
  const nothing = { leftForTime: 0, leftForRoom: 0, failed: 0 };
  expect(flushText({ blocks: 3, bytes: 3 * 2 ** 20, ms: 1250, ...nothing })).toBe(
    "KV cache: wrote 3 blocks, 3.0 MiB, to disk in 1.3 s",
  );
  const report = { blocks: 1, bytes: 64, ms: 0, leftForTime: 5, leftForRoom: 6, failed: 7 };
  expect(flushText(report)).toBe(
    "KV cache: wrote 1 blocks, 64 bytes, to disk in 0.0 s; without 5 for want of time " +
      "(--shutdown-flush-ms), 6 for want of room (--disk-cache-bytes), 7 that the disk refused",
  );
});
