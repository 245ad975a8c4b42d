import { expect, test } from "vitest";
import { chainOf, type DraftSeed, type LateTrees } from "#speculative";
import { LateDrafts } from "../../src/engine/loop/late-drafts.ts";

function seed(root: number, length: number): DraftSeed {
  const shape = { length, width: 1 };
  return { rows: Int32Array.of(0), position: 3, root, shape, sampling: null };
}

/** Chains of tokens that lie level by level from element 64 on. */
function chainsOf(take: LateTrees["take"]): LateTrees {
  return {
    nodesOf: (chain) => chainOf(0, new Int32Array(seeds[chain]?.shape.length ?? 0)),
    sourceOf: (chain, node) => 64 + 8 * (node - 1) + chain,
    take,
  };
}

const seeds = [seed(5, 3), seed(6, 1)];

test("[SP29] a draft names where its tokens are, until the host knows them", async () => {
  const drafts = new LateDrafts();
  let taken = 0;
  const trees = drafts.add(
    seeds,
    chainsOf(async () => {
      taken++;
      return [Int32Array.of(7, 8, 9), Int32Array.of(4)];
    }),
  );
  expect(trees.map(({ tokens }) => [...tokens])).toEqual([
    [5, 0, 0, 0],
    [6, 0],
  ]);
  expect(trees[0]?.parents).toEqual(Int32Array.of(-1, 0, 1, 2));
  expect(trees.map(({ late }) => [late?.known, ...(late?.sources ?? [])])).toEqual([
    [false, 64, 72, 80],
    [false, 65],
  ]);
  await drafts.read();
  expect(trees.map(({ tokens }) => [...tokens])).toEqual([
    [5, 7, 8, 9],
    [6, 4],
  ]);
  expect(trees.every(({ late }) => late?.known)).toBe(true);
  await drafts.read();
  expect(taken).toBe(1);
});

test("[SP29] of a device that fails the tokens stay zeros, and nothing waits for them", async () => {
  const drafts = new LateDrafts();
  const failure = new Error("the device failed");
  const trees = drafts.add(
    seeds,
    chainsOf(() => Promise.reject(failure)),
  );
  await expect(drafts.read()).rejects.toBe(failure);
  expect(trees.every(({ late }) => late?.known)).toBe(true);
  expect([...(trees[0]?.tokens ?? [])]).toEqual([5, 0, 0, 0]);
  await drafts.read();
});
