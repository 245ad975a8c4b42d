import { expect, test } from "vitest";
import { seedFrom, uniformAt } from "#base";
import { BlockHeap, levelBlockId } from "#kvcache";

test("blocks come out by rank, then by turn", () => {
  const heap = new BlockHeap(8);
  const ranks = [5, 1, 5, 0, 7, 1];
  ranks.forEach((rank, block) => {
    heap.push(levelBlockId(block), rank, block);
  });
  const order: number[] = [];
  for (let top = heap.top(); top !== null; top = heap.top()) {
    order.push(top);
    heap.remove(top);
  }
  expect(order).toEqual([3, 1, 5, 0, 2, 4]);
  expect(heap.count).toBe(0);
});

test("a block that is put back goes to where it belonged", () => {
  const heap = new BlockHeap(4);
  for (const block of [0, 1, 2]) heap.push(levelBlockId(block), 9, block);
  heap.remove(levelBlockId(0));
  expect(heap.top()).toBe(1);
  heap.pushBack(levelBlockId(0));
  expect(heap.top()).toBe(0);
});

test("putting a block in twice, and taking out a stranger, are bugs", () => {
  const heap = new BlockHeap(4);
  heap.push(levelBlockId(1), 0, 0);
  expect(() => heap.push(levelBlockId(1), 0, 1)).toThrow("twice");
  expect(() => heap.remove(levelBlockId(2))).toThrow("does not have it");
});

test.for([1, 2, 3])("any block can be taken out of any heap (seed %i)", (seed) => {
  const blocks = 60;
  const heap = new BlockHeap(blocks);
  const plain = new Map<number, readonly [rank: number, turn: number]>();
  let draws = 0;
  const below = (limit: number) => Math.floor(uniformAt(seedFrom(seed), draws++) * limit);
  for (let turn = 0; turn < 3000; turn++) {
    const block = levelBlockId(below(blocks));
    if (heap.has(block)) {
      heap.remove(block);
      plain.delete(block);
    } else {
      const rank = below(10) - 5;
      heap.push(block, rank, turn);
      plain.set(block, [rank, turn]);
    }
    const [first] = [...plain].sort(([, a], [, b]) => a[0] - b[0] || a[1] - b[1]);
    expect(heap.top()).toBe(first?.[0] ?? null);
    expect(heap.count).toBe(plain.size);
  }
});
