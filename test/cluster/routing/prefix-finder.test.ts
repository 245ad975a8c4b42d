import { expect, test } from "vitest";
import { IndexedPrefixes, KvIndex } from "#cluster";
import { namesFrom, scopeOf } from "../../support/kv-changes.ts";
import { workerInfo } from "../../support/worker-info.ts";

test("[CL118] a prefix that one group of layers has given up is found by no router", () => {
  const lookup = new KvIndex();
  const number = lookup.join();
  const groups = [0, 1].map((group) => scopeOf({ group }));
  const tokens = Uint32Array.from({ length: 40 }, (_, at) => at);
  const stored = groups.map(({ group }) => namesFrom(1 + group * 1000, 10));
  for (const [at, scope] of groups.entries()) {
    const own = stored[at] ?? new Uint32Array();
    lookup.apply(number, [{ type: "stored", scope, level: 0, parent: null, names: own, tokens }]);
  }
  const { model = "", blockTokens = 0 } = groups[0] ?? {};
  const prefixes = (groupWindows: readonly (number | null)[]) =>
    new IndexedPrefixes({
      placeOf: () => ({ lookup, number, model, blockTokens, groupWindows, announces: true }),
      clock: { nowMs: () => 0 },
    });
  const found = (groupWindows: readonly (number | null)[]) => {
    const query = { tokens, salt: null, lora: null };
    return prefixes(groupWindows).find(query, [workerInfo()])[0]?.levels[2] ?? 0;
  };
  expect(found([null, 9])).toBe(10);
  // The second group's last two are gone: no prefix ends behind them.
  const gone = (stored[1] ?? new Uint32Array()).slice(2 * 8, 2 * 10);
  lookup.apply(number, [{ type: "removed", names: gone, level: null }]);
  expect(found([null])).toBe(10);
  expect(found([null, 9])).toBe(8);
  expect(found([null, null])).toBe(8);
  lookup.apply(number, [{ type: "removed", names: stored[1] ?? gone, level: null }]);
  expect(found([null, 9])).toBe(0);
  expect(found([null])).toBe(10);
});
