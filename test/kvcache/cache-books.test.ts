import { describe, expect, test } from "vitest";
import { CacheManager, range, worth } from "../support/cache-manager.ts";

const two = (changes: Partial<ConstructorParameters<typeof CacheManager>[0]> = {}) =>
  new CacheManager({ blocks: 4, blockTokens: 4, hostBlocks: 4, ...changes });

describe("moving to host memory", () => {
  test("[KV28] what is worth at least 30 moves, what is worth less is forgotten", () => {
    for (const [priority, kept] of [
      [30, 7],
      [29, 0],
    ] as const) {
      const manager = two();
      manager.pass(range(0, 7), { retention: worth(priority) });
      manager.pass(range(100, 115));
      expect(manager.stored(range(0, 6))).toBe(kept);
    }
  });

  test("[KV28] the threshold can be set", () => {
    const manager = two({ offloadPriorityMin: 36 });
    manager.pass(range(0, 7));
    manager.pass(range(100, 115));
    expect(manager.stored(range(0, 6))).toBe(0);
    expect(manager.cache.takeMoves()).toEqual([]);
  });

  /** A leased block in host memory, offloaded at 20 of 60 ms. */
  function leased() {
    const manager = two();
    manager.pass(range(0, 7), { retention: worth(80, { durationMs: 60 }) });
    manager.cache.advance(20);
    manager.pass(range(100, 115), { retention: worth(90) });
    const [block] = manager.cache.match("", Int32Array.from(range(0, 7))).blocks;
    if (block === undefined) throw new Error("Nothing moved");
    expect(manager.cache.levelOf(block)).toBe(1);
    return { manager, block };
  }

  test("[KV36] the priority goes along, and time that runs runs on", () => {
    const { manager, block } = leased();
    manager.cache.advance(59);
    expect(manager.cache.priorityOf(block)).toBe(80);
    manager.cache.advance(60);
    expect(manager.cache.priorityOf(block)).toBe(35);
    const [device, host] = manager.cache.stats().levels;
    expect([device?.expired, host?.expired]).toEqual([0, 2]);
  });

  test("[KV36] what comes back to the device has its whole time again when it is let go", () => {
    const { manager } = leased();
    manager.cache.advance(50);
    const again = manager.add(range(0, 7));
    expect(again.cached).toBe(7);
    const [first] = manager.held(again);
    if (first === undefined) throw new Error("Nothing came back");
    manager.cache.advance(100);
    expect(manager.cache.priorityOf(first)).toBe(80);
    manager.remove(again);
    manager.cache.advance(159);
    expect(manager.cache.priorityOf(first)).toBe(80);
    manager.cache.advance(160);
    expect(manager.cache.priorityOf(first)).toBe(35);
  });

  test("[KV28] nothing moves where another copy is on the device, or in host memory", () => {
    const manager = two({ blocks: 6 });
    const [one, other] = [manager.add(range(0, 4)), manager.add(range(0, 4))];
    manager.store(one);
    manager.store(other);
    manager.remove(one);
    manager.add(range(100, 111));
    expect(manager.cache.takeMoves()).toEqual([]);
    expect(manager.stored(range(0, 3))).toBe(4);
  });

  test("[KV30] host memory forgets what continues the contents that make room there", () => {
    const manager = two({ hostBlocks: 1 });
    manager.pass(range(0, 15));
    manager.pass(range(100, 115));
    // One head is left there, and can be found: nothing of what continued it is.
    expect(manager.cache.poolStats(1).cached).toBe(1);
    expect(manager.stored(range(0, 14))).toBe(4);
  });

  test("[KV1] levels are counted, and what happened in them", () => {
    const manager = two();
    manager.pass(range(0, 15));
    manager.pass(range(100, 115));
    manager.pass(range(0, 15));
    const [device, host] = manager.cache.stats().levels;
    expect(device).toMatchObject({ level: 0, total: 4 });
    expect(device?.offloaded).toBeGreaterThanOrEqual(4);
    expect(host).toMatchObject({ level: 1, total: 4, onboarded: 4, hitTokens: 15 });
    expect(device?.hitTokens).toBe(0);
    expect(manager.cache.poolStats(2)).toEqual({ free: 0, held: 0, cached: 0, total: 0 });
  });
});

describe("coming back", () => {
  function inHost() {
    const manager = two();
    manager.pass(range(0, 15));
    const other = manager.add(range(100, 115));
    manager.remove(other, 0);
    manager.cache.takeMoves();
    return manager;
  }

  test("[KV29] contents leave host memory, whose block is free", () => {
    const manager = inHost();
    expect(manager.cache.poolStats(1).cached).toBe(4);
    const again = manager.add(range(0, 12));
    expect(again.cached).toBe(12);
    expect(manager.levels(again)).toEqual([0, 0, 0, 0]);
    expect(manager.cache.poolStats(1).cached).toBe(1);
  });

  test("[KV29] two that come in one step share what comes back", () => {
    const manager = inHost();
    const { cache } = manager;
    const prompt = Int32Array.from(range(0, 8));
    const match = cache.match("", prompt);
    const [one, two] = [manager.add([900]), manager.add([901])].map(({ table }) => table);
    if (one === undefined || two === undefined) throw new Error("No tables");
    for (const table of [one, two]) cache.release(table);
    for (const table of [one, two]) cache.hold(table, match);
    for (const table of [one, two]) cache.settle(table, match);
    expect([...one.view()]).toEqual([...two.view()]);
    expect(cache.takeMoves().length).toBe(2);
    cache.audit([one, two]);
  });

  test("[KV6] a prefix that is held in host memory is not evicted for what comes back", () => {
    const manager = inHost();
    const { cache } = manager;
    const match = cache.match("", Int32Array.from(range(0, 14)));
    const costs = match.blocks.map((block) => cache.claimCost(block));
    expect(costs).toEqual([1, 1, 1]);
    const again = manager.add(range(0, 14));
    expect(again.cached).toBe(14);
    expect(manager.free).toBe(0);
  });
});
