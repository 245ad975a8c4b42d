import { describe, expect, test } from "vitest";
import {
  chainOf,
  checkTree,
  confirmedPath,
  hideBranches,
  isChain,
  pathTo,
  type TokenTree,
  treeOf,
} from "#speculative";

/** 9 ─ 4 ─ 7 ─ 1
 *      └ 8
 *  └ 5 ─ 7 */
const tree: TokenTree = {
  tokens: Int32Array.of(9, 4, 7, 1, 8, 5, 7),
  parents: Int32Array.of(-1, 0, 1, 2, 1, 0, 5),
  depths: Int32Array.of(0, 1, 2, 3, 2, 1, 2),
};

/** What is sampled behind each node; null where nothing may be read. */
const sampling = (tokens: readonly (number | null)[]) => (node: number) => tokens[node] ?? null;

describe("[SP2] a draft is a tree whose nodes come behind their parents", () => {
  test("a chain", () => {
    const chain = chainOf(9, [4, 7]);
    expect([...chain.tokens]).toEqual([9, 4, 7]);
    expect([...chain.parents]).toEqual([-1, 0, 1]);
    expect(isChain(chain)).toBe(true);
    expect(() => checkTree(chain)).not.toThrow();
  });

  test("leading nodes may be a chain, though all are none", () => {
    expect(isChain(tree)).toBe(false);
    expect(isChain(tree, 4)).toBe(true);
    expect(() => checkTree(tree)).not.toThrow();
  });

  test.each([
    ["no root", [], []],
    ["a root with a parent", [1], [0]],
    ["a node before its parent", [1, 2, 3], [-1, 2, 0]],
    ["a node that is its own parent", [1, 2], [-1, 1]],
    ["fewer parents than tokens", [1, 2], [-1]],
  ])("%s is a bug", (_, tokens, parents) => {
    const depths = Int32Array.from(tokens, (_, node) => Math.min(node, 1));
    const wrong = { tokens: Int32Array.from(tokens), parents: Int32Array.from(parents), depths };
    expect(() => checkTree(wrong)).toThrow();
  });

  test("a depth that is not its parent's plus one is a bug", () => {
    expect(() => checkTree({ ...tree, depths: Int32Array.of(0, 1, 2, 3, 3, 1, 2) })).toThrow();
  });
});

describe("[SP6] a tree of continuations", () => {
  const branches = [
    [4, 7, 1],
    [4, 8],
    [5, 7],
    [4, 7],
  ];

  test("what begins alike is one path, in the order of the continuations", () => {
    expect(treeOf(9, branches, 64)).toEqual(tree);
    expect(treeOf(9, [[4, 7]], 64)).toEqual(chainOf(9, [4, 7]));
    expect(treeOf(9, [], 64)).toEqual(chainOf(9, []));
  });

  test("leaves out nodes beyond the most", () => {
    expect(treeOf(9, branches, 5).tokens).toEqual(Int32Array.of(9, 4, 7, 1, 8));
    expect(treeOf(9, branches, 1).tokens).toEqual(Int32Array.of(9));
    checkTree(treeOf(9, branches, 3));
  });

  test("each node's path are the tokens from the root to it", () => {
    const paths = [...tree.tokens.keys()].map((node) => [...pathTo(tree, node)]);
    expect(paths).toEqual([[], [4], [4, 7], [4, 7, 1], [4, 8], [5], [5, 7]]);
  });

  test("its mask hides from each node those before it that are no ancestors", () => {
    const mask = new Uint32Array(2 * 8);
    hideBranches(tree, 6, mask, { firstRow: 1, words: 2 });
    const hidden = [...tree.tokens.keys()].map((node) => [mask[2 + 2 * node], mask[3 + 2 * node]]);
    expect(hidden).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
      [0, 0],
      [0b1100, 0],
      [0b11110, 0],
      [0, 0],
    ]);
    expect([mask[0], mask[1]]).toEqual([0, 0]);
  });

  test("masks of more than 32 nodes have further words", () => {
    // 33 siblings: the last one must not see the others.
    const wide = treeOf(
      9,
      Array.from({ length: 33 }, (_, token) => [token]),
      64,
    );
    const mask = new Uint32Array(2 * 34);
    hideBranches(wide, 34, mask, { firstRow: 0, words: 2 });
    expect([mask[2 * 33], mask[2 * 33 + 1]]).toEqual([0xfffffffe, 1]);
  });
});

describe("[SP1] the path that sampled tokens confirm", () => {
  test.each([
    ["nothing is confirmed", [3, 0, 0, 0, 0, 0, 0], [0]],
    ["the first branch", [4, 7, 1, 2, 0, 0, 0], [0, 1, 2, 3]],
    ["a branch inside of it", [4, 8, 0, 0, 3, 0, 0], [0, 1, 4]],
    ["the second branch", [5, 7, 0, 0, 0, 7, 3], [0, 5, 6]],
    ["an equal token under another node is no child", [7, 0, 0, 0, 0, 0, 0], [0]],
  ])("%s", (_, sampled, path) => {
    expect(confirmedPath(tree, 7, sampling(sampled))).toEqual(path);
  });

  test("[SP3] ends before a row that failed, and before one that was not computed", () => {
    expect(confirmedPath(tree, 7, sampling([4, 7, null, 2]))).toEqual([0, 1]);
    expect(confirmedPath(tree, 3, sampling([4, 7, 1, 2]))).toEqual([0, 1, 2]);
    expect(confirmedPath(tree, 1, sampling([4]))).toEqual([0]);
  });

  test("every path of a random tree is found, by a walk from node to node", () => {
    for (let seed = 1; seed < 400; seed++) {
      let state = seed;
      const below = (limit: number): number => {
        state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
        return (state >>> 8) % limit;
      };
      const nodes = 1 + below(12);
      const parents = Int32Array.from({ length: nodes }, (_, node) =>
        node === 0 ? -1 : below(node),
      );
      const depths = new Int32Array(nodes);
      for (let node = 1; node < nodes; node++) depths[node] = (depths[parents[node] ?? 0] ?? 0) + 1;
      // Siblings have tokens of their own.
      const tokens = Int32Array.from(
        { length: nodes },
        (_, node) => parents.slice(0, node).filter((parent) => parent === parents[node]).length,
      );
      const sampled = Array.from({ length: nodes }, () => (below(9) === 0 ? null : below(3)));
      const walk = [0];
      for (;;) {
        const node = walk.at(-1) ?? 0;
        const child = [...parents.keys()].find(
          (other) => parents[other] === node && tokens[other] === sampled[node],
        );
        if (child === undefined || sampled[child] === null) break;
        walk.push(child);
      }
      expect(confirmedPath({ tokens, parents, depths }, nodes, sampling(sampled))).toEqual(walk);
    }
  });

  test("branches that begin alike are walked as one, along the first nodes", () => {
    // 5 7 8, 5 7 9 and 5 6, each from the root on.
    const tree = {
      tokens: Int32Array.of(4, 5, 7, 8, 5, 7, 9, 5, 6),
      parents: Int32Array.of(-1, 0, 1, 2, 0, 4, 5, 0, 7),
      depths: Int32Array.of(0, 1, 2, 3, 1, 2, 3, 1, 2),
    };
    const walk = (tokens: readonly (number | null)[]) => confirmedPath(tree, 9, sampling(tokens));
    expect(walk([5, 7, 9, 0, 1, 1, 3])).toEqual([0, 1, 2, 6]);
    expect(walk([5, 6, 0, 0, 7, 1, 1, 1, 2])).toEqual([0, 1, 8]);
    // What was sampled behind a later one of several nodes of one path does not count.
    expect(walk([5, 1, 1, 1, 7, 9, 1])).toEqual([0, 1]);
    expect(walk([5, 7, null, 0, 7, 9, 1])).toEqual([0, 1]);
    expect(confirmedPath(tree, 6, sampling([5, 7, 9]))).toEqual([0, 1, 2]);
  });
});
