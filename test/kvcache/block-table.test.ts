import { expect, test } from "vitest";
import { BlockTable, KvCache } from "#kvcache";

test("[KV3] a table lists its blocks in position order, for reading and copying", () => {
  const cache = new KvCache({ blocks: 8, blockTokens: 16 });
  const table = new BlockTable("salt");
  cache.allocate(table, 3);
  expect([table.length, table.scope]).toEqual([3, "salt"]);
  expect([table.get(0), table.get(2)]).toEqual([0, 2]);
  expect([...table.view()]).toEqual([0, 1, 2]);
  const row = new Int32Array(6).fill(-1);
  table.copyTo(row, 2);
  expect([...row]).toEqual([-1, -1, 0, 1, 2, -1]);
  expect(() => table.get(3)).toThrow("past the end");
});
