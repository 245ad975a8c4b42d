/**
 * Scenarios of the tests of apple/ml-recurrent-drafter and of TensorRT-LLM's ReDrafter, by their
 * numbers in the table of SPEC.md ("Upstream's scenarios"), which says where the others are.
 */
import { describe, expect, test } from "vitest";
import { confirmedPath, hideBranches, pathTo, type TokenTree, treeOf } from "#speculative";
import { at } from "#tensor";
import { AcceptedTokens } from "../../src/engine/loop/accepted-tokens.ts";
import { RandomNumbers } from "../contracts/device-ops/random.ts";

type Beams = readonly (readonly number[])[];

const A: Beams = [
  [91, 92, 93, 95],
  [91, 92, 94, 96],
  [91, 92, 93, 97],
];
const B: Beams = [
  [93, 94, 95, 92],
  [93, 95, 96, 93],
  [93, 94, 97, 96],
];
const EXAMPLE: Beams = [
  [101, 102, 103, 104],
  [101, 102, 203, 204],
  [101, 102, 303, 104],
];

/** The tree of beams that begin with the token before the draft. */
function packed(beams: Beams): TokenTree {
  return treeOf(
    beams[0]?.[0] ?? 0,
    beams.map(([, ...drafted]) => drafted),
    64,
  );
}

/** Upstream's unpacker: the node of each token of a beam. */
function nodesOf(tree: TokenTree, beam: readonly number[]): number[] {
  const nodes = [0];
  for (const token of beam.slice(1)) {
    const parent = nodes.at(-1);
    nodes.push(
      [...tree.tokens.keys()].findIndex(
        (node) => tree.parents[node] === parent && tree.tokens[node] === token,
      ),
    );
  }
  return nodes;
}

/** Upstream's packed_token_indices: each node's first place in the beams, laid out in a row. */
function placesOf(tree: TokenTree, beams: Beams): number[] {
  const all = beams.flatMap((beam) => nodesOf(tree, beam));
  return [...tree.tokens.keys()].map((node) => all.indexOf(node));
}

describe("1: packing", () => {
  test.each([
    {
      ...{ beams: A, tokens: [91, 92, 93, 95, 94, 96, 97], places: [0, 1, 2, 3, 6, 7, 11] },
      ...{ depths: [0, 1, 2, 3, 2, 3, 3] },
      unpacker: ["0123", "0145", "0126"],
    },
    {
      ...{ beams: B, tokens: [93, 94, 95, 92, 95, 96, 93, 97, 96] },
      ...{ places: [0, 1, 2, 3, 5, 6, 7, 10, 11], depths: [0, 1, 2, 3, 1, 2, 3, 2, 3] },
      unpacker: ["0123", "0456", "0178"],
    },
  ])("$tokens", ({ beams, tokens, places, depths, unpacker }) => {
    const tree = packed(beams);
    expect([...tree.tokens]).toEqual(tokens);
    expect(placesOf(tree, beams)).toEqual(places);
    expect([...tree.depths]).toEqual(depths);
    expect(beams.map((beam) => nodesOf(tree, beam).join(""))).toEqual(unpacker);
  });
});

test("2: a node sees its ancestors and itself", () => {
  const tree = packed(A);
  const nodes = tree.tokens.length;
  const mask = new Uint32Array(nodes);
  hideBranches(tree, nodes, mask, { firstRow: 0, words: 1 });
  const seen = [...tree.tokens.keys()].map((node) =>
    Array.from({ length: node + 1 }, (_, other) => 1 - ((at(mask, node) >>> other) & 1)).join(""),
  );
  expect(seen).toEqual(["1", "11", "111", "1111", "11001", "110011", "1110001"]);
});

test("3: equal tokens behind different prefixes are nodes of their own", () => {
  const tree = packed(EXAMPLE);
  expect(tree.tokens).toHaveLength(8);
  expect(placesOf(tree, EXAMPLE)).toEqual([0, 1, 2, 3, 6, 7, 10, 11]);
  const unpacker = EXAMPLE.map((beam) => nodesOf(tree, beam).join(""));
  expect(unpacker).toEqual(["0123", "0145", "0167"]);
});

describe("4: rows of a beam are found among those of the nodes", () => {
  test.each([
    { beams: [[9, 1, 2]], unpackers: [[0, 1, 2]] },
    {
      beams: [
        [9, 1, 2],
        [9, 1, 3],
        [9, 1, 4],
      ],
      unpackers: [
        [0, 1, 2],
        [0, 1, 3],
        [0, 1, 4],
      ],
    },
    {
      beams: [
        [9, 1, 2],
        [9, 3, 2],
        [9, 4, 2],
      ],
      unpackers: [
        [0, 1, 2],
        [0, 3, 4],
        [0, 5, 6],
      ],
    },
    // Upstream's third case, [0 1 2], [0 2 3] and [0 2 4], is of no tree: node 2 has two parents.
  ])("$unpackers", ({ beams, unpackers }) => {
    const tree = packed(beams);
    const random = new RandomNumbers(8);
    const rows = Array.from({ length: tree.tokens.length }, () => [...random.floats(8)]);
    beams.forEach((beam, place) => {
      // What was sampled follows this beam alone: the path are its rows.
      const wanted = nodesOf(tree, beam);
      const path = confirmedPath(tree, tree.tokens.length, (node) => {
        const depth = wanted.indexOf(node);
        return depth < 0 ? -1 : (beam[depth + 1] ?? -1);
      });
      expect(path).toEqual(unpackers[place]);
      expect(path.map((node) => rows[node])).toEqual(wanted.map((node) => rows[node]));
      expect([...pathTo(tree, path.at(-1) ?? 0)]).toEqual(beam.slice(1));
    });
  });
});

test("5: the cache ends with the keys of the accepted beam", () => {
  // Two requests with four tokens each, and four nodes behind them; two levels of layers.
  const layers = [0, 1].map((layer) => ({
    ...{ slots: Int32Array.from({ length: 8 }, (_, row) => 100 * layer + 10 + row) },
    blockTables: new Int32Array(),
  }));
  const cache = new Map<number, string>();
  for (const { slots } of layers) {
    slots.forEach((slot, row) => {
      cache.set(slot, `r${row >> 2} k${row & 3}`);
    });
  }
  const accepted = new AcceptedTokens();
  accepted.add(layers, 0, [0, 1, 2]);
  accepted.add(layers, 4, [0, 1, 3]);
  const { starts, moves } = accepted.moves() ?? expect.fail("nothing moves");
  expect([...starts]).toEqual([0, 1, 2]);
  for (let move = 0; move < moves.length; move += 2) {
    cache.set(at(moves, move + 1), cache.get(at(moves, move)) ?? "");
  }
  for (const { slots } of layers) {
    const keys = [0, 1, 2, 4, 5, 6].map((row) => cache.get(at(slots, row)));
    expect(keys).toEqual(["r0 k0", "r0 k1", "r0 k2", "r1 k0", "r1 k1", "r1 k3"]);
  }
});

/** What a model says behind each node of beams, where a beam's row says what comes at each place. */
function saidBy(tree: TokenTree, beams: Beams, rows: Beams): (node: number) => number | null {
  const said = new Map<number, number>();
  beams.forEach((beam, place) => {
    nodesOf(tree, beam).forEach((node, depth) => {
      // Beams with one node in common have one row for it in a model.
      if (!said.has(node)) said.set(node, rows[place]?.[depth] ?? -1);
    });
  });
  return (node) => said.get(node) ?? null;
}

const CHOSEN: Beams = [
  [1, 2, 3, 4],
  [1, 2, 3, 5],
  [1, 3, 4, 5],
];

describe("6 and 7: greedy acceptance, and what comes next", () => {
  test.each([
    {
      ...{ request: 0, accepted: 3, next: 5 },
      rows: [
        [2, 3, 4, 5],
        [2, 3, 4, 6],
        [3, 4, 6, 8],
      ],
    },
    {
      ...{ request: 1, accepted: 1, next: 5 },
      rows: [
        // Beams 0 and 1 are one node up to here: the model has one row for it, beam 1's.
        [2, 5, 4, 6],
        [2, 5, 4, 5],
        [7, 4, 6, 8],
      ],
    },
    {
      ...{ request: 2, accepted: 0, next: 8 },
      rows: [
        [8, 8, 8, 8],
        [8, 8, 8, 8],
        [8, 8, 8, 8],
      ],
    },
  ])("request $request accepts $accepted tokens", ({ rows, accepted, next }) => {
    const tree = packed(CHOSEN);
    const said = saidBy(tree, CHOSEN, rows);
    const path = confirmedPath(tree, tree.tokens.length, said);
    expect(path).toHaveLength(1 + accepted);
    // The next token and hidden state are those of the path's last node.
    expect(said(path.at(-1) ?? 0)).toBe(next);
  });
});

describe("8: as many tokens as of the best beam, whatever ties", () => {
  const sizes = [1, 4, 13].flatMap((width) => [2, 4, 13].map((length) => ({ width, length })));

  test.each(sizes)("$width beams of $length tokens", ({ width, length }) => {
    for (const requests of [1, 4, 13]) {
      const random = new RandomNumbers(100 * requests + 10 * width + length);
      for (let request = 0; request < requests; request++) {
        // Few tokens, so that beams begin alike; of a model, one answer for each prefix.
        const beams = Array.from({ length: width }, () => [
          7,
          ...Array.from({ length: length - 1 }, () => random.below(2)),
        ]);
        const tree = treeOf(
          7,
          beams.map(([, ...drafted]) => drafted),
          width * length + 1,
        );
        const answers = new Map<string, number>();
        const answer = (prefix: string) => {
          const known = answers.get(prefix) ?? random.below(3);
          answers.set(prefix, known);
          return known;
        };
        const path = confirmedPath(tree, tree.tokens.length, (node) =>
          answer(pathTo(tree, node).join(",")),
        );
        const counts = beams.map(([, ...drafted]) => {
          let count = 0;
          while (count < drafted.length) {
            if (answer(drafted.slice(0, count).join(",")) !== drafted[count]) break;
            count++;
          }
          return count;
        });
        const best = Math.max(...counts);
        expect(path).toHaveLength(1 + best);
        // Any of the best beams has these tokens.
        const [, ...drafted] = beams[counts.indexOf(best)] ?? [];
        expect([...pathTo(tree, path.at(-1) ?? 0)]).toEqual(drafted.slice(0, best));
      }
    }
  });
});

test("15: nodes of several requests lie behind each other without padding", () => {
  const trees = [packed(A), packed(B)];
  expect(trees.map(({ tokens }) => tokens.length)).toEqual([7, 9]);
  const bases = [3, 10];
  const positions = trees.flatMap(({ depths }, request) =>
    [...depths].map((depth) => (bases[request] ?? 0) + depth),
  );
  expect(positions.slice(0, 7)).toEqual([3, 4, 5, 6, 5, 6, 6]);
  expect(positions.slice(7)).toEqual([10, 11, 12, 13, 11, 12, 13, 12, 13]);
});
