/** The contract of drafters takes kinds that are not built yet, without a change. */
import { describe, expect, test } from "vitest";
import { chainOf, checkTree, type Drafter, type DraftSeed, treeOf } from "#speculative";

const seeds: readonly DraftSeed[] = [
  {
    ...{ rows: Int32Array.of(3), position: 10, root: 7, shape: { length: 3, width: 2 } },
    sampling: null,
  },
  {
    ...{ rows: Int32Array.of(4, 6, 7), position: 20, root: 9, shape: { length: 2, width: 1 } },
    sampling: { temperature: 1, topK: 0, topP: 1, minP: 0, seed: { low: 1, high: 2 } },
  },
];

/** The likeliest tokens of each place of a block, best first, with how sure they are. */
interface BlockPlace {
  readonly tokens: readonly number[];
  readonly confidences: readonly number[];
}

/**
 * Emits a whole block at once (DFlash, DSpark, P-EAGLE): several tokens for each place, and how
 * sure it is of them. Its first branch has the best token of each place, further ones exchange the
 * token at the place where the second one is surest; it ends where it is unsure.
 */
class BlockDrafter implements Drafter {
  readonly #blockOf: (row: number) => readonly BlockPlace[];

  constructor(blockOf: (row: number) => readonly BlockPlace[]) {
    this.#blockOf = blockOf;
  }

  draft(seeds: readonly DraftSeed[]) {
    return Promise.resolve(
      seeds.map(({ rows, root, shape }) => {
        const block = this.#blockOf(rows.at(-1) ?? -1).slice(0, shape.length);
        const sure = block.filter(({ confidences }) => (confidences[0] ?? 0) > 0.3);
        if (sure.length === 0) return null;
        const best = sure.map(({ tokens }) => tokens[0] ?? 0);
        const others = sure
          .map(({ tokens, confidences }, place) => ({
            branch: [...best.slice(0, place), tokens[1] ?? 0],
            confidence: confidences[1] ?? 0,
          }))
          .sort((a, b) => b.confidence - a.confidence)
          .map(({ branch }) => branch);
        return treeOf(root, [best, ...others].slice(0, shape.width), 64);
      }),
    );
  }
}

/**
 * Native heads for several tokens (MTP): each predicts one token further from the hidden states of
 * all new tokens, whose keys and values it keeps in the sequence's own blocks. So it reads every
 * row of a seed, with its position.
 */
class HeadsDrafter implements Drafter {
  readonly read: [row: number, position: number][] = [];

  draft(seeds: readonly DraftSeed[]) {
    return Promise.resolve(
      seeds.map(({ rows, position, root, shape }) => {
        for (const [at, row] of rows.entries()) this.read.push([row, position + at]);
        const drafted = Array.from({ length: shape.length }, (_, place) => root + 1 + place);
        return chainOf(root, drafted);
      }),
    );
  }
}

describe("[SP9] the contract of drafters", () => {
  test("a drafter of whole blocks, with several tokens for each place", async () => {
    const block: BlockPlace[] = [
      { tokens: [1, 2], confidences: [0.9, 0.05] },
      { tokens: [3, 4], confidences: [0.5, 0.4] },
      { tokens: [5, 6], confidences: [0.2, 0.1] },
    ];
    const drafter = new BlockDrafter((row) => (row === 3 ? block : []));
    const [tree, none] = await drafter.draft(seeds);
    expect(none).toBe(null);
    expect([...(tree?.tokens ?? [])]).toEqual([7, 1, 3, 4]);
    expect([...(tree?.parents ?? [])]).toEqual([-1, 0, 1, 1]);
    if (tree) checkTree(tree);
  });

  test("heads of the model that read all accepted rows", async () => {
    const drafter = new HeadsDrafter();
    const trees = await drafter.draft(seeds);
    for (const tree of trees) checkTree(tree);
    expect(drafter.read).toEqual([
      [3, 10],
      [4, 20],
      [6, 21],
      [7, 22],
    ]);
    expect(trees.map(({ tokens }) => [...tokens])).toEqual([
      [7, 8, 9, 10],
      [9, 10, 11],
    ]);
  });
});
