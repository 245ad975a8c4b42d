import { expect, test } from "vitest";
import { EngineOptions } from "#engine";
import { checkLevelSizes } from "../../../src/engine/tiers/level-sizes.ts";

const GIB = 2 ** 30;
const room = { bytesPerBlock: 2 ** 16, bytesFree: 16 * GIB };

function check(kvCache: { hostCacheBytes?: number; diskCacheBytes?: number }): void {
  const { kvCache: settings } = EngineOptions.parse({ kvCache: { ...kvCache, diskCacheDir: "d" } });
  checkLevelSizes(settings, room);
}

test("levels of a possible size are accepted, and so are levels without a setting", () => {
  check({});
  check({ hostCacheBytes: 2 ** 16, diskCacheBytes: 2 ** 40 });
});

test.for(["hostCacheBytes", "diskCacheBytes"] as const)(
  "%s below one block are refused, with the size of a block",
  (param) => {
    expect(() => check({ [param]: 100 })).toThrow(
      `Cannot use ${param}: must be at least the 65536 bytes of one block, current value is 100`,
    );
  },
);

test("more host memory than is free is refused with both numbers", () => {
  expect(() => check({ hostCacheBytes: 17 * GIB })).toThrow(
    `must be at most the ${16 * GIB} bytes of memory that are free, current value is ${17 * GIB}`,
  );
});

test("a disk level whose books would fill the memory is refused with what they would take", () => {
  const bytes = 9_000_000_000_000_000;
  const blocks = Math.floor(bytes / 2 ** 16);
  expect(() => check({ diskCacheBytes: bytes })).toThrow(
    `current value is ${bytes}, whose ${blocks} blocks need ${blocks * 160} bytes of memory`,
  );
  expect(() => check({ diskCacheBytes: bytes })).toThrow(`a quarter of what is free is ${4 * GIB}`);
});
