import { describe, expect, test } from "vitest";
import { FleetIndex, KvIndex } from "#cluster/index";
import type { KvChange, KvLevel } from "#cluster/protocol";
import { sized } from "../../support/full.ts";
import { Chances, names, namesFrom, scopeOf } from "../../support/kv-changes.ts";

const MIB = 2 ** 20;
const clock = { nowMs: () => 0 };

/** A run of blocks that no other run has. */
function run(first: number, blocks: number, level: KvLevel = 0): KvChange {
  return {
    ...{ type: "stored", scope: scopeOf(), level, parent: null },
    names: namesFrom(first, blocks),
    tokens: Uint32Array.from({ length: blocks * 4 }, (_, at) => first * 1000 + at),
  };
}

function blocksFound(index: KvIndex, { tokens }: { tokens: Uint32Array }): number[] {
  return index.find(index.blocksOf(scopeOf(), tokens)).map(({ levels }) => levels[2]);
}

const tokensOf = (change: KvChange) => change as Extract<KvChange, { type: "stored" }>;

describe("memory", () => {
  test("[CL8] endless new blocks stay within the bytes, and the newest are there", () => {
    const index = new KvIndex({ bytesMax: 2 * MIB });
    const worker = index.join();
    for (let step = 0; step < 8000; step++) {
      index.apply(worker, [run(step * 10, 10)]);
      expect(index.stats().bytes).toBeLessThanOrEqual(2 * MIB);
    }
    const { memberships, evicted, bytes, stored, refused } = index.stats();
    expect(bytes).toBeGreaterThan(MIB);
    expect(memberships + evicted + refused).toBe(stored);
    expect(refused).toBeLessThan(stored / 1000);
    expect(memberships).toBeGreaterThan(15_000);
    expect(blocksFound(index, tokensOf(run(7999 * 10, 10)))).toEqual([10]);
    expect(blocksFound(index, tokensOf(run(0, 10)))).toEqual([]);
  });

  test("[CL8] what is found again and again outlives what is not", () => {
    const index = new KvIndex({ bytesMax: 2 * MIB });
    const worker = index.join();
    const liked = tokensOf(run(5_000_000, 50));
    index.apply(worker, [run(4_000_000, 50), liked, run(6_000_000, 50)]);
    for (let step = 0; step < 8000; step++) {
      index.apply(worker, [run(step * 10, 10)]);
      if (step % 100 === 0) blocksFound(index, liked);
    }
    expect(blocksFound(index, liked)).toEqual([50]);
    expect(blocksFound(index, tokensOf(run(4_000_000, 50)))).toEqual([]);
    expect(blocksFound(index, tokensOf(run(6_000_000, 50)))).toEqual([]);
  });

  test("[CL8] a worker beyond its own bound gives up its oldest, and no one else does", () => {
    const index = new KvIndex({ workerBlocksMax: 100 });
    const [small, large] = [index.join(), index.join()];
    index.apply(small, [run(0, 80)]);
    for (let step = 1; step <= 30; step++) index.apply(large, [run(step * 1000, 20)]);
    expect(index.stats()).toMatchObject({ memberships: 180, evicted: 500 });
    expect(blocksFound(index, tokensOf(run(0, 80)))).toEqual([80]);
    expect(blocksFound(index, tokensOf(run(30_000, 20)))).toEqual([20]);
  });

  test("[CL8] levels, shared blocks and sets of every size stay within the bytes", () => {
    const index = new KvIndex({ bytesMax: 2 * MIB });
    const chances = new Chances(3);
    const workers = Array.from({ length: 200 }, () => index.join());
    for (let step = 0; step < sized(15_000, 100_000); step++) {
      const level = chances.below(3) as KvLevel;
      const change = run(chances.below(500) * 40, 1 + chances.below(40), level);
      index.apply(chances.of(workers), [change]);
      if (step % 100 === 0) {
        expect(index.stats().bytes).toBeLessThanOrEqual(2 * MIB);
        blocksFound(index, tokensOf(change));
      }
    }
    expect(index.stats().evicted).toBeGreaterThan(10_000);
    for (const worker of workers) index.leave(worker);
    expect(index.stats()).toMatchObject({ memberships: 0, blocks: 0 });
  });

  test("[CL8] an index without room for itself is refused", () => {
    expect(() => new KvIndex({ bytesMax: 1000 })).toThrow(/at least 1048576 bytes/);
    expect(() => new KvIndex({ bytesMax: Number.NaN })).toThrow(/current value is NaN/);
  });

  test("[CL8] guesses of any number stay within the bytes, and so does the fleet's index", () => {
    const index = new FleetIndex({ clock, bytesMax: 8 * MIB });
    const workers = [true, false].map((announces) => index.join({ announces }));
    for (let step = 0; step < 8000; step++) {
      for (const worker of workers) {
        const { tokens } = tokensOf(run(step * 10, 10));
        index.routed(worker, index.blocksOf(scopeOf(), tokens));
        index.apply(worker, [run(9_000_000 + step * 10, 10)]);
      }
    }
    const { exact, approximate, predicted } = index.stats();
    for (const { bytes, bytesMax } of [exact, approximate, predicted]) {
      expect(bytes).toBeLessThanOrEqual(bytesMax);
    }
    expect(exact.bytesMax + approximate.bytesMax + predicted.bytesMax).toBeLessThanOrEqual(8 * MIB);
    expect(approximate.evicted).toBeGreaterThan(0);
    const newest = index.blocksOf(scopeOf(), tokensOf(run(7999 * 10, 10)).tokens);
    expect(index.find(newest)).toHaveLength(2);
  });
});

describe("hostile workers", () => {
  test("[CL9] a worker that announces without end takes nothing from those with fewer blocks", () => {
    const index = new KvIndex({ bytesMax: 2 * MIB });
    const good = Array.from({ length: 10 }, () => index.join());
    good.forEach((worker, place) => {
      index.apply(worker, [run(10_000_000 + place * 1000, 500)]);
    });
    const bad = index.join();
    for (let step = 0; step < 6000; step++) index.apply(bad, [run(step * 10, 10)]);
    good.forEach((_, place) => {
      expect(blocksFound(index, tokensOf(run(10_000_000 + place * 1000, 500)))).toEqual([500]);
    });
    expect(index.stats().evicted).toBeGreaterThan(10_000);
  });

  test("[CL9] one list of 200,000 blocks is taken in as far as there is room", () => {
    const index = new KvIndex({ bytesMax: 2 * MIB });
    const worker = index.join();
    index.apply(worker, [run(0, 200_000)]);
    const { bytes, memberships } = index.stats();
    expect(bytes).toBeLessThanOrEqual(2 * MIB);
    expect(memberships).toBeGreaterThan(10_000);
    index.apply(worker, [{ type: "removed", names: namesFrom(0, 100_000), level: null }]);
    index.leave(worker);
    expect(index.stats().memberships).toBe(0);
  });

  test("[CL9] one block under 100,000 names, and one name for 100,000 blocks", () => {
    const index = new KvIndex({ bytesMax: 2 * MIB });
    const [aliases, renames] = [index.join(), index.join()];
    for (let name = 0; name < 100_000; name++) {
      const tokens = Uint32Array.of(1, 2, 3, 4);
      const stored = { ...tokensOf(run(name, 1)) };
      index.apply(aliases, [{ ...stored, tokens }]);
      index.apply(renames, [{ ...stored, names: names(1) }]);
    }
    expect(index.stats().bytes).toBeLessThanOrEqual(2 * MIB);
    expect(index.stats()).toMatchObject({ renamed: 99_999 });
    index.leave(aliases);
    expect(index.stats()).toMatchObject({ memberships: 1, blocks: 1 });
  });

  test("[CL9] names that differ in high bits alone do not meet in one slot", () => {
    // Of a table that takes names as they are, each look would walk over all of them.
    const index = new KvIndex();
    const worker = index.join();
    const count = sized(30_000, 100_000);
    for (let at = 0; at < count; at++) {
      const one = tokensOf(run(at, 1));
      index.apply(worker, [{ ...one, names: Uint32Array.of(0, at << 14) }]);
    }
    expect(index.stats().memberships).toBe(count);
  });

  test("[CL9] 10,000 changes of random nonsense: no throw, no growth", () => {
    const index = new KvIndex({ bytesMax: 2 * MIB });
    const worker = index.join();
    const chances = new Chances(9);
    const words = () => new Uint32Array(chances.below(9)).map(() => chances.below(30));
    const odd = [0, 1, 2, 3, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 4, 2 ** 31];
    for (let step = 0; step < 10_000; step++) {
      const type = chances.of(["stored", "removed", "moved", "cleared", "other"]);
      const scope = scopeOf({
        blockTokens: chances.of(odd),
        model: "m".repeat(chances.below(3) * chances.below(10_000)),
        salt: chances.of([null, `${step}`]),
      });
      const change = {
        ...{ type, scope, level: chances.of(odd), from: chances.of(odd), to: chances.of(odd) },
        ...{ parent: chances.of([null, words()]), names: words(), tokens: words() },
      };
      index.apply(worker, [change as unknown as KvChange]);
      expect(index.stats().bytes).toBeLessThanOrEqual(2 * MIB);
    }
    expect(index.stats().malformed).toBeGreaterThan(1000);
  });
});
