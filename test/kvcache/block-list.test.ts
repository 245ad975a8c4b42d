import { expect, test } from "vitest";
import { BlockList, levelBlockId } from "#kvcache";

const list = (blocks: number, ...front: number[]) => {
  const made = new BlockList(blocks);
  for (const block of front) made.pushBack(levelBlockId(block));
  return made;
};

test("[KV6] V 5.1 (18): blocks come out in the order they went in", () => {
  const order = list(4, 0, 1, 2, 3);
  expect([order.popFront(), order.popFront()]).toEqual([0, 1]);
  expect(order.count).toBe(2);
});

test("[KV6] V 5.1 (18): a block leaves from the middle, and the rest keep their order", () => {
  const order = list(5, 0, 1, 2, 3, 4);
  order.remove(levelBlockId(2));
  expect([...order]).toEqual([0, 1, 3, 4]);
  expect(order.has(levelBlockId(2))).toBe(false);
});

test("[KV6] V 5.1 (18): what was taken out goes to the back or the front", () => {
  const order = list(6, 0, 4, 5);
  for (const block of [1, 2, 3]) order.pushBack(levelBlockId(block));
  expect([...order]).toEqual([0, 4, 5, 1, 2, 3]);
  const other = list(6, 4, 5, 0);
  for (const block of [2, 1]) other.pushFront(levelBlockId(block));
  expect([...other]).toEqual([1, 2, 4, 5, 0]);
  expect(other.count).toBe([...other].length);
});

test("[KV6] V 5.1 (18): an empty list has no front", () => {
  const order = list(2);
  expect(order.front()).toBeNull();
  expect(order.popFront()).toBeNull();
});

test("[KV3] a block cannot be in a list twice, nor leave one it is not in", () => {
  const order = list(2, 0);
  expect(() => order.pushBack(levelBlockId(0))).toThrow("twice");
  expect(() => order.remove(levelBlockId(1))).toThrow("does not have it");
});
