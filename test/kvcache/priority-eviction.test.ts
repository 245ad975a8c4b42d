import { describe, expect, test } from "vitest";
import { type LevelBlockId, levelBlockId, PriorityEviction } from "#kvcache";
import { forgetAll } from "../contracts/eviction.ts";

const ids = (...blocks: number[]) => blocks.map(levelBlockId);

/** An order with the blocks 0 up to `blocks`, all worth 35, and those of `covered` continued. */
function makeOrder(blocks: number, covered: Set<LevelBlockId> = new Set()): PriorityEviction {
  const order = new PriorityEviction(blocks, (block) => covered.has(block));
  for (let block = 0; block < blocks; block++) order.add(levelBlockId(block));
  return order;
}

describe("claims and releases", () => {
  test("T 3: what is claimed of one level does not count there, and counts in the other", () => {
    const [device, host] = [makeOrder(8), makeOrder(4)];
    expect([device.count, host.count]).toEqual([8, 4]);
    device.remove(levelBlockId(0));
    expect([device.count, host.count]).toEqual([7, 4]);
    host.remove(levelBlockId(0));
    expect([device.count, host.count]).toEqual([7, 3]);
  });

  test("T 4: what is given back to the front goes next, what is given back does not", () => {
    const order = makeOrder(8);
    order.remove(levelBlockId(0));
    order.addFirst(levelBlockId(0));
    expect(order.victim()).toBe(0);
    order.remove(levelBlockId(0));
    order.add(levelBlockId(0));
    expect(order.victim()).toBe(1);
  });

  test("T 5: of equals, what was released first goes first", () => {
    const order = makeOrder(8);
    for (const block of ids(1, 2)) order.remove(block);
    for (const block of ids(2, 1)) order.add(block);
    for (const block of ids(0, 3, 4, 5, 6, 7)) order.remove(block);
    expect(forgetAll(order)).toEqual([2, 1]);
  });

  test("T 10: contents that change levels are out of one order before they are in the other", () => {
    const [device, host] = [makeOrder(8), makeOrder(4)];
    const from = device.victim() ?? levelBlockId(-1);
    const to = host.victim() ?? levelBlockId(-1);
    device.remove(from);
    host.remove(to);
    expect([device.count, host.count]).toEqual([7, 3]);
    host.prioritise(to, 80);
    host.add(to);
    expect([device.count, host.count]).toEqual([7, 4]);
    expect(forgetAll(device)).toEqual(ids(1, 2, 3, 4, 5, 6, 7));
    expect(forgetAll(host)).toEqual(ids(1, 2, 3, 0));
  });
});

test("every priority has its place in the order", () => {
  const order = new PriorityEviction(101, () => false);
  for (let at = 0; at < 101; at++) {
    const block = levelBlockId((at * 37) % 101);
    order.prioritise(block, 100 - block);
    order.add(block);
  }
  expect(forgetAll(order)).toEqual(Array.from({ length: 101 }, (_, at) => 100 - at));
});

describe("a cached block whose priority changes", () => {
  test("goes behind its new equals", () => {
    const order = makeOrder(4);
    order.prioritise(levelBlockId(3), 50);
    order.prioritise(levelBlockId(0), 50);
    expect(forgetAll(order)).toEqual([1, 2, 3, 0]);
  });

  test("stays where it is if the priority is the one it has", () => {
    const order = makeOrder(3);
    order.prioritise(levelBlockId(0), 35);
    expect(order.victim()).toBe(0);
  });

  test("is looked at again if it was passed over", () => {
    const covered = new Set(ids(0));
    const order = makeOrder(3, covered);
    expect(order.victim()).toBe(1);
    order.prioritise(levelBlockId(0), 5);
    expect(order.victim()).toBe(1);
    covered.clear();
    order.uncovered(levelBlockId(0));
    expect(order.victim()).toBe(0);
  });
});

describe("covered blocks", () => {
  test("[KV18] are passed over, and go before their equals once they are not covered", () => {
    const covered = new Set(ids(0, 1));
    const order = makeOrder(4, covered);
    expect(order.victim()).toBe(2);
    covered.delete(levelBlockId(1));
    order.uncovered(levelBlockId(1));
    expect(order.victim()).toBe(1);
    expect(order.count).toBe(4);
  });

  test("[KV18] go last where no others are left, by their priority", () => {
    const covered = new Set(ids(0, 1, 2));
    const order = makeOrder(4, covered);
    order.prioritise(levelBlockId(0), 60);
    expect(forgetAll(order)).toEqual([3, 1, 2, 0]);
    expect(order.count).toBe(0);
  });

  test("[KV18] that are held and given back take their turn again", () => {
    const covered = new Set(ids(0));
    const order = makeOrder(2, covered);
    expect(order.victim()).toBe(1);
    order.remove(levelBlockId(0));
    covered.clear();
    order.add(levelBlockId(0));
    expect(forgetAll(order)).toEqual([1, 0]);
  });
});

test("[KV21] impossible priorities, and handing out what is cached, are bugs", () => {
  const order = makeOrder(2);
  expect(() => order.prioritise(levelBlockId(0), 101)).toThrow("priority 101");
  expect(() => order.prioritise(levelBlockId(0), 0.5)).toThrow("priority 0.5");
  expect(() => order.taken(levelBlockId(0))).toThrow("still cached");
});
