import { expect, test } from "vitest";
import { blockId, type NodeId, PrefixTree } from "#kvcache";

const BLOCK_TOKENS = 4;
const place = (tokens: number[], parent: NodeId | null = null, scope = "") => ({
  scope,
  parent,
  tokens: Int32Array.from(tokens),
  start: 0,
});

test("[KV7] a block is found by its tokens below its parent only", () => {
  const tree = new PrefixTree(8, BLOCK_TOKENS);
  const first = tree.insert(place([1, 2, 3, 4]), blockId(0));
  const second = tree.insert(place([5, 6, 7, 8], first), blockId(1));
  expect(tree.find(place([1, 2, 3, 4]))).toBe(first);
  expect(tree.find(place([5, 6, 7, 8], first))).toBe(second);
  expect(tree.find(place([5, 6, 7, 8]))).toBeNull();
  expect(tree.find(place([5, 6, 7, 9], first))).toBeNull();
  expect(tree.blockOf(second)).toBe(1);
  const other = tree.insert(place([5, 6, 7, 8]), blockId(2));
  expect(other).not.toBe(second);
  tree.remove(blockId(1));
  expect(tree.find(place([5, 6, 7, 8], first))).toBeNull();
  expect(tree.find(place([5, 6, 7, 8]))).toBe(other);
});

test("[KV11] V 5.1 (13): two blocks of equal contents; forgetting one leaves the other", () => {
  const tree = new PrefixTree(8, BLOCK_TOKENS);
  const node = tree.insert(place([1, 2, 3, 4]), blockId(5));
  expect(tree.insert(place([1, 2, 3, 4]), blockId(6))).toBe(node);
  expect(tree.insert(place([1, 2, 3, 4]), blockId(7))).toBe(node);
  expect(tree.blockOf(node)).toBe(5);
  tree.remove(blockId(7));
  tree.remove(blockId(5));
  expect(tree.find(place([1, 2, 3, 4]))).toBe(node);
  expect(tree.blockOf(node)).toBe(6);
  expect(() => tree.remove(blockId(5))).toThrow("not stored");
  tree.remove(blockId(6));
  expect(tree.find(place([1, 2, 3, 4]))).toBeNull();
  expect(tree.nodeCount).toBe(0);
});

test("[KV9] scopes have trees of their own, which leave nothing behind", () => {
  const tree = new PrefixTree(4, BLOCK_TOKENS);
  for (let round = 0; round < 100; round++) {
    tree.insert(place([1, 2, 3, 4], null, `tenant ${round}`), blockId(round % 4));
    expect(tree.find(place([1, 2, 3, 4], null, `tenant ${round + 1}`))).toBeNull();
    if (round >= 3) tree.remove(blockId((round + 1) % 4));
  }
  expect(tree.scopeCount).toBe(3);
});

test("[KV13] forgetting a prefix before what continues it is a bug", () => {
  const tree = new PrefixTree(4, BLOCK_TOKENS);
  const first = tree.insert(place([1, 2, 3, 4]), blockId(0));
  tree.insert(place([5, 6, 7, 8], first), blockId(1));
  expect(() => tree.remove(blockId(0))).toThrow("before what continues it");
});

test("[KV7] every node is found among many in one table, and none when all are gone", () => {
  const blocks = 2000;
  const tree = new PrefixTree(blocks, 1);
  const nodes: NodeId[] = [];
  for (let block = 0; block < blocks; block++) {
    const parent = block % 7 === 0 ? null : (nodes[block - 1] ?? null);
    nodes.push(tree.insert(place([block % 50 === 0 ? block : block % 50], parent), blockId(block)));
  }
  expect(tree.nodeCount).toBeLessThanOrEqual(blocks);
  for (let block = blocks - 1; block >= 0; block--) tree.remove(blockId(block));
  expect(tree.nodeCount).toBe(0);
  expect(tree.scopeCount).toBe(0);
});

test("[KV14] clear forgets everything", () => {
  const tree = new PrefixTree(4, BLOCK_TOKENS);
  tree.insert(place([1, 2, 3, 4], null, "salt"), blockId(0));
  tree.clear();
  expect(tree.has(blockId(0))).toBe(false);
  expect(tree.find(place([1, 2, 3, 4], null, "salt"))).toBeNull();
  expect(tree.scopeCount).toBe(0);
});

test("[KV7] siblings are found while first ones come and go", () => {
  const tree = new PrefixTree(8, 1);
  const root = tree.insert(place([9]), blockId(0));
  const children = [1, 2, 3, 4].map((token) => tree.insert(place([token], root), blockId(token)));
  const found = () => [1, 2, 3, 4].map((token) => tree.find(place([token], root)));
  expect(found()).toEqual(children);
  // The first child, then one in the middle, then the new first one.
  tree.remove(blockId(1));
  expect(found()).toEqual([null, ...children.slice(1)]);
  tree.remove(blockId(3));
  expect(found()).toEqual([null, children[1], null, children[3]]);
  tree.remove(blockId(2));
  tree.remove(blockId(4));
  expect(found()).toEqual([null, null, null, null]);
  tree.remove(blockId(0));
  expect(tree.scopeCount).toBe(0);
});

test("[KV18] a block is covered while it is the only one of a prefix that others continue", () => {
  const uncovered: number[] = [];
  const tree = new PrefixTree(8, 1, { onUncovered: (block) => uncovered.push(block) });
  const head = tree.insert(place([1]), blockId(0));
  expect(tree.isCovered(blockId(0))).toBe(false);
  tree.insert(place([2], head), blockId(1));
  tree.insert(place([3], head), blockId(2));
  expect(tree.isCovered(blockId(0))).toBe(true);
  expect(tree.isCovered(blockId(1))).toBe(false);
  tree.insert(place([1]), blockId(3));
  expect(tree.isCovered(blockId(0))).toBe(false);
  expect(uncovered).toEqual([0]);
  tree.remove(blockId(3));
  expect(tree.isCovered(blockId(0))).toBe(true);
  tree.remove(blockId(1));
  expect(uncovered).toEqual([0]);
  tree.remove(blockId(2));
  expect(uncovered).toEqual([0, 0]);
  expect(tree.isCovered(blockId(0))).toBe(false);
  expect(tree.isCovered(blockId(7))).toBe(false);
});

test("[KV22] all that continues a prefix is forgotten, each block once, and nothing else", () => {
  const tree = new PrefixTree(16, 1);
  const head = tree.insert(place([1]), blockId(0));
  const left = tree.insert(place([2], head), blockId(1));
  tree.insert(place([3], left), blockId(2));
  tree.insert(place([3], left), blockId(3));
  tree.insert(place([4], left), blockId(4));
  tree.insert(place([5], head), blockId(5));
  const other = tree.insert(place([2]), blockId(6));
  const forgotten: number[] = [];
  tree.removeBelow(head, (block) => forgotten.push(block));
  expect(forgotten.sort()).toEqual([1, 2, 3, 4, 5]);
  expect(tree.find(place([1]))).toBe(head);
  expect(tree.find(place([2], head))).toBeNull();
  expect(tree.find(place([2]))).toBe(other);
  expect(tree.nodeCount).toBe(2);
});
