import { expect, test } from "vitest";
import { seedFrom, uniformAt } from "#base";
import { BlockQueues, levelBlockId } from "#kvcache";

test("the first block is that of the lowest queue that has one", () => {
  const queues = new BlockQueues(4, 256);
  expect(queues.first()).toBeNull();
  for (const [block, queue] of [255, 31, 32, 0].entries())
    queues.pushBack(levelBlockId(block), queue);
  const order: number[] = [];
  for (let first = queues.first(); first !== null; first = queues.first()) {
    queues.remove(first);
    order.push(first);
  }
  expect(order).toEqual([3, 1, 2, 0]);
});

test("a block is in one queue only, and leaves it without being asked which", () => {
  const queues = new BlockQueues(2, 3);
  queues.pushFront(levelBlockId(1), 2);
  expect(() => queues.pushBack(levelBlockId(1), 0)).toThrow("twice");
  queues.remove(levelBlockId(1));
  expect(() => queues.remove(levelBlockId(1))).toThrow("does not have it");
  expect(queues.front(2)).toBeNull();
});

test.for([1, 2, 3])("queues are what plain lists say (seed %i)", (seed) => {
  const [blocks, count] = [30, 40];
  const queues = new BlockQueues(blocks, count);
  const plain: number[][] = Array.from({ length: count }, () => []);
  let draws = 0;
  const below = (limit: number) => Math.floor(uniformAt(seedFrom(seed), draws++) * limit);
  for (let operation = 0; operation < 3000; operation++) {
    const block = levelBlockId(below(blocks));
    const queue = below(count);
    if (queues.has(block)) {
      queues.remove(block);
      for (const list of plain) if (list.includes(block)) list.splice(list.indexOf(block), 1);
    } else if (below(2) === 0) {
      queues.pushFront(block, queue);
      plain[queue]?.unshift(block);
    } else {
      queues.pushBack(block, queue);
      plain[queue]?.push(block);
    }
    expect([...queues.blocksOf(queue)]).toEqual(plain[queue]);
    expect(queues.first()).toBe(plain.find((list) => list.length > 0)?.[0] ?? null);
    expect(queues.count).toBe(plain.flat().length);
  }
});
