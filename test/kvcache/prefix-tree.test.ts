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

/** A partial block: fewer tokens than `BLOCK_TOKENS`. */
const part = (tokens: number[], parent: NodeId | null = null, extra = "") => ({
  ...place(tokens, parent),
  count: tokens.length,
  extra,
});

test("[KV7] T 31: a partial block is found by exactly its tokens, and nothing continues it", () => {
  const tree = new PrefixTree(8, BLOCK_TOKENS);
  const head = tree.insert(place([0, 1, 2, 3]), blockId(0));
  const tail = tree.insert(part([4, 5, 6], head), blockId(1));
  expect(tree.find(part([4, 5, 6], head))).toBe(tail);
  expect(tree.find(part([4, 5], head))).toBeNull();
  expect(tree.find(place([4, 5, 6, 7], head))).toBeNull();
  const full = tree.insert(place([4, 5, 6, 7], head), blockId(2));
  expect(tree.find(part([4, 5, 6], head))).toBe(tail);
  expect(tree.find(place([4, 5, 6, 7], head))).toBe(full);
  expect([tree.lengthOf(head), tree.lengthOf(tail), tree.lengthOf(full)]).toEqual([4, 3, 4]);
  expect([...tree.tokensOf(tail)]).toEqual([4, 5, 6]);
  expect(() => tree.insert(place([7, 8, 9, 10], tail), blockId(3))).toThrow("a full block");
  expect(() => tree.insert(part([], head), blockId(3))).toThrow("more or less than a block");
  expect(tree.nodeCount).toBe(3);
});

test("[KV7] the child with most tokens in common is found, of equals the one that ends there", () => {
  const tree = new PrefixTree(16, BLOCK_TOKENS);
  expect(tree.findPartial(place([1, 2, 3, 4]))).toBeNull();
  const stored = [
    [1, 2, 3, 4],
    [1, 2, 9, 9],
    [1, 2],
    [5, 6, 7, 8],
    [-1, 6, 7, 8],
  ];
  const [long, , short, other, negative] = stored.map((tokens, block) =>
    tree.insert(part(tokens), blockId(block)),
  );
  expect(tree.findPartial(place([1, 2, 3, 4]))).toEqual({ node: long, tokens: 4 });
  expect(tree.findPartial(place([1, 2, 3, 7]))).toEqual({ node: long, tokens: 3 });
  expect(tree.findPartial(place([1, 2, 7, 7]))).toEqual({ node: short, tokens: 2 });
  expect(tree.findPartial(part([1, 2, 3]))).toEqual({ node: long, tokens: 3 });
  expect(tree.findPartial(part([1]))?.tokens).toBe(1);
  expect(tree.findPartial(part([5]))).toEqual({ node: other, tokens: 1 });
  expect(tree.findPartial(place([-1, 6, 0, 0]))).toEqual({ node: negative, tokens: 2 });
  expect(tree.findPartial(place([2, 2, 3, 4]))).toBeNull();
  expect(tree.findPartial(place([1, 2, 3, 4], null, "other scope"))).toBeNull();
  expect(tree.findPartial(place([1, 2, 3, 4], long))).toBeNull();
});

test("[KV7] an extra key tells equal tokens apart, and is never found partially", () => {
  const tree = new PrefixTree(8, BLOCK_TOKENS);
  const first = tree.insert(part([1, 2, 3, 4], null, "one image"), blockId(0));
  expect(tree.find(place([1, 2, 3, 4]))).toBeNull();
  expect(tree.findPartial(place([1, 2, 3, 4]))).toBeNull();
  expect(tree.find(part([1, 2, 3, 4], null, "another image"))).toBeNull();
  expect(tree.find(part([1, 2, 3, 4], null, "one image"))).toBe(first);
  expect(tree.findPartial(part([1, 2, 3, 4], null, "one image"))).toBeNull();
  const second = tree.insert(part([1, 2, 3, 4], null, "another image"), blockId(1));
  const plain = tree.insert(place([1, 2, 3, 9]), blockId(2));
  expect(tree.findPartial(place([1, 2, 3, 4]))).toEqual({ node: plain, tokens: 3 });
  expect([first, second, plain].map((node) => tree.extraOf(node))).toEqual([
    "one image",
    "another image",
    "",
  ]);
  tree.remove(blockId(0));
  expect(tree.extraCount).toBe(1);
  expect(tree.find(part([1, 2, 3, 4], null, "another image"))).toBe(second);
});

test("[KV11] a node names its best block: of the nearest level, and of those the oldest", () => {
  const levelOf = (block: number) => Math.floor(block / 10);
  const tree = new PrefixTree(30, BLOCK_TOKENS, { levelOf });
  const node = tree.insert(place([1, 2, 3, 4]), blockId(25));
  const blocksAfter = (block: number) => {
    tree.attach(node, blockId(block));
    return [...tree.blocksOf(node)];
  };
  expect(tree.isOnlyBlock(blockId(25))).toBe(true);
  expect(blocksAfter(12)).toEqual([12, 25]);
  expect(blocksAfter(5)).toEqual([5, 12, 25]);
  expect(blocksAfter(3)).toEqual([5, 3, 12, 25]);
  expect(blocksAfter(11)).toEqual([5, 3, 12, 11, 25]);
  expect(blocksAfter(20)).toEqual([5, 3, 12, 11, 25, 20]);
  tree.remove(blockId(5));
  tree.remove(blockId(20));
  tree.remove(blockId(12));
  expect([...tree.blocksOf(node)]).toEqual([3, 11, 25]);
  expect(tree.blockOf(node)).toBe(3);
  expect(tree.nodeOf(blockId(11))).toBe(node);
  expect(tree.nodeOf(blockId(12))).toBeNull();
  expect(() => tree.attach(node, blockId(11))).toThrow("in two places");
});

test("[KV22] listeners hear of each node once, while it can be read", () => {
  const told: string[] = [];
  const tree = new PrefixTree(8, 2, {
    onNodeAdded: (node) => told.push(`+${tree.tokensOf(node)} in ${tree.blockOf(node)}`),
    onNodeRemoved: (node) => {
      const parent = tree.parentOf(node);
      const below = parent === null ? tree.scopeOf(node) : tree.tokensOf(parent);
      told.push(`-${tree.tokensOf(node)} in ${tree.blockOf(node)} below ${below}`);
    },
  });
  const head = tree.insert(place([1, 2], null, "salt"), blockId(0));
  const next = tree.insert(place([3, 4], head), blockId(1));
  tree.insert(place([3, 4], head), blockId(2));
  tree.insert({ ...part([5], next), scope: "ignored" }, blockId(3));
  expect(told.splice(0)).toEqual(["+1,2 in 0", "+3,4 in 1", "+5 in 3"]);
  const forgotten: number[] = [];
  tree.removeBelow(head, (block) => forgotten.push(block));
  expect(forgotten).toEqual([3, 1, 2]);
  expect(told.splice(0)).toEqual(["-5 in 3 below 3,4", "-3,4 in 2 below 1,2"]);
  tree.remove(blockId(0));
  expect(told).toEqual(["-1,2 in 0 below salt"]);
});

test("[KV7] all nodes are named, parents before what continues them, in every scope", () => {
  const tree = new PrefixTree(16, 1);
  const head = tree.insert(place([1]), blockId(0));
  const children = [5, 3, 4].map((token) => tree.insert(place([token], head), blockId(token)));
  const deep = tree.insert(place([1], children[1] ?? null), blockId(1));
  const other = tree.insert(place([1], null, "salt"), blockId(2));
  const nodes = [...tree.nodes()];
  expect([...nodes].sort()).toEqual([head, ...children, deep, other].sort());
  expect(nodes.indexOf(head)).toBeLessThan(Math.min(...children.map((own) => nodes.indexOf(own))));
  expect(nodes.indexOf(children[1] ?? head)).toBeLessThan(nodes.indexOf(deep));
  expect(tree.scopeOf(deep)).toBe("");
  expect(tree.scopeOf(other)).toBe("salt");
  expect(tree.nodesMax).toBe(16);
});
