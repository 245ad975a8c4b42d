import { describe, expect, test } from "vitest";
import { KindAcceptance, SequenceAcceptance } from "#speculative";
import { DraftPolicy } from "../../src/engine/loop/draft-policy.ts";
import type { NetworkShape } from "../../src/engine/loop/kind-costs.ts";
import { RandomNumbers } from "../contracts/device-ops/random.ts";
import { eachNth } from "../support/full.ts";

interface World {
  readonly sequences: number;
  /** ms of a step with so many drafted tokens; 0: a plain one. */
  readonly msOf: (nodes: number) => number;
  /** Chance of each drafted token behind an accepted one. */
  readonly rate: number;
  /** ms that a network takes to draft; null: drafts are looked up. */
  readonly networkMs: number | null;
  /** Chance that a tree's second branch is right where its first is not, and what a tree takes. */
  readonly beside?: { readonly rate: number; readonly ms: number };
  readonly steps?: number;
}

const length = 8;

/** The probabilities of a draft's nodes, of a tree whose second branch may be cut. */
function cut(survivals: Float64Array, nodes: number): Float64Array {
  return survivals.subarray(0, nodes <= length ? nodes : survivals.length);
}

/** Steps of an engine, by the clock of a world. Returns tokens a ms. */
function speedIn(world: World, off = false, policy = new DraftPolicy(256)): number {
  const { sequences, msOf, rate, networkMs, steps = 3000, beside = null } = world;
  const random = new RandomNumbers(9);
  const isRight = (chance: number): boolean => random.below(1000) < chance * 1000;
  const kind = new KindAcceptance();
  const all = Array.from({ length: sequences }, () => new SequenceAcceptance(kind));
  const branches = beside === null ? 1 : 2;
  const depths = Int32Array.from(
    { length: 1 + branches * length },
    (_, node) => node && ((node - 1) % length) + 1,
  );
  const parents = depths.map((depth, node) => (depth === 1 ? 0 : node - 1));
  const tree = { tokens: Int32Array.from(depths, (_, node) => node), depths, parents };
  const network = networkMs !== null;
  let [tokens, ms] = [0, 0];
  let made: NetworkShape | null = null;
  let planned: readonly number[] = all.map(() => 0);
  let offered = planned;
  for (let step = 0; step < steps; step++) {
    const whole = all.map((one) => one.survivals(tree, { firstBranch: length }));
    const isMade = !off && (!network || made !== null);
    const offers = isMade
      ? whole.map((one, at) => (network ? cut(one, offered[at] ?? 0) : one))
      : [];
    const nodes = policy.allot(offers, { sequences, network: made, foresaw: false });
    const drafted = nodes.reduce((sum, count) => sum + count, 0);
    if (network && !off && policy.looks(planned.some((count) => count > 0))) {
      const wanted = whole.map((survivals) => ({ survivals, firstBranch: length }));
      planned = policy.drafts(wanted, { sequences, foresaw: false });
    }
    const most = Math.max(...planned);
    const behind: NetworkShape | null = most === 0 ? null : most > length ? "tree" : "chain";
    const networkTook = behind === null ? 0 : (networkMs ?? 0);
    const took = msOf(drafted) + networkTook + (behind === "tree" ? (beside?.ms ?? 0) : 0);
    let confirmed = 0;
    nodes.forEach((count, place) => {
      let [path, first] = [0, 1];
      while (path < Math.min(count, length) && isRight(rate)) path++;
      if (path === 0 && count > length && isRight(beside?.rate ?? 0)) {
        [path, first] = [1, 1 + length];
        while (path < count - length && isRight(rate)) path++;
      }
      confirmed += path;
      if (count === 0) return;
      const tokenIds = [...tree.tokens.subarray(first, first + path), 99];
      all[place]?.verified({ tree, firstBranch: length, drafted: count, tokenIds });
    });
    tokens += sequences + confirmed;
    ms += took;
    // Each tenth step is disturbed.
    const noise = random.below(10) === 0 ? 5 : 0.95 + random.below(100) / 1000;
    policy.record(
      { sequences, drafted, network: behind, accepted: confirmed, foresaw: false },
      took * noise,
    );
    [made, offered] = [behind, planned];
  }
  return tokens / ms;
}

/** Steps of so many rows, of which some are drafted. */
const worlds: Readonly<Record<string, (rows: number, drafted: number) => number>> = {
  "rows that cost nothing": () => 10,
  "a step that waits for memory": (rows) => 10 + 0.2 * rows,
  "steps that overlap unless they have drafts": (rows, drafted) =>
    (drafted === 0 ? 10 : 14) + 0.1 * rows,
  "a processor with few cores": (rows) => 6 + 4 * rows,
  "a full device": (rows) => 10 * rows,
};

describe("[SP21] what is verified", () => {
  const cases = Object.entries(worlds).flatMap(([name, world]) =>
    [1, 16, 64].flatMap((sequences) =>
      [0.02, 0.3, 0.6, 0.9].flatMap((rate) =>
        [null, 3].map((networkMs) => [name, sequences, rate, networkMs, world] as const),
      ),
    ),
  );
  // Seven has no factor in common with the sizes above: the short run has some of each.
  test.each(eachNth(7, cases))(
    "%s, %i sequences, %f accepted, network %s: no slower than plain steps",
    (_, sequences, rate, networkMs, world) => {
      const msOf = (drafted: number): number => world(sequences + drafted, drafted);
      const all = { msOf, sequences, rate, networkMs };
      expect(speedIn(all)).toBeGreaterThan(0.97 * speedIn(all, true));
    },
  );

  test("drafts that pay are made: 16 sequences on a device that waits for memory", () => {
    const world = { sequences: 16, msOf: (n: number) => 10 + 0.02 * n, rate: 0.8, networkMs: null };
    expect(speedIn(world)).toBeGreaterThan(2.5 * speedIn(world, true));
  });

  test("64 sequences learn that drafts pay, though the first few only cost the overlap", () => {
    const msOf = (nodes: number): number => (nodes === 0 ? 10 : 14 + 0.02 * nodes);
    const world = { sequences: 64, msOf, rate: 0.8, networkMs: null, steps: 1000 };
    expect(speedIn(world)).toBeGreaterThan(1.3 * speedIn(world, true));
  });

  test("a network that pays drafts: its own time included", () => {
    const world = { sequences: 1, msOf: (n: number) => 10 + 0.2 * n, rate: 0.8, networkMs: 2 };
    expect(speedIn(world)).toBeGreaterThan(2 * speedIn(world, true));
  });
});

describe("[SP31] one continuation or a tree", () => {
  const gpu = { sequences: 1, msOf: (nodes: number) => 10 + 0.1 * nodes, rate: 0.6, networkMs: 2 };

  test("trees are drafted where they take no longer than chains of as many nodes", () => {
    const chains = speedIn(gpu);
    expect(speedIn({ ...gpu, beside: { rate: 0.6, ms: 0 } })).toBeGreaterThan(1.02 * chains);
  });

  test("one continuation is drafted where trees take much longer", () => {
    const chains = speedIn({ ...gpu, steps: 10_000 });
    const trees = { ...gpu, steps: 10_000, beside: { rate: 0.6, ms: 25 } };
    expect(speedIn(trees)).toBeGreaterThan(0.97 * chains);
  });
});

describe("[SP21] tries", () => {
  const firsts = [0.02, 0.1, 0.3].flatMap((rate) =>
    [null, 1].flatMap((networkMs) => [6, 12].map((first) => [rate, networkMs, first] as const)),
  );
  test.each(firsts)(
    "the first steps are hardly slower where drafts do not pay: %f accepted, network %s, %i ms",
    (rate, networkMs, first) => {
      const msOf = (nodes: number): number => (nodes === 0 ? 4 : first + 0.15 * nodes);
      const world = { sequences: 16, msOf, rate, networkMs };
      for (const [steps, share] of [
        [400, 0.92],
        [1600, 0.965],
      ] as const) {
        const off = speedIn({ ...world, steps }, true);
        expect(speedIn({ ...world, steps })).toBeGreaterThan(share * off);
      }
    },
  );

  test("a new number of sequences does not spend what was saved up before", () => {
    const slow = { msOf: (nodes: number) => 1 + nodes, rate: 0.5, networkMs: 2 };
    const policy = new DraftPolicy(256);
    speedIn({ ...slow, sequences: 1, steps: 30_000 }, false, policy);
    const then = { ...slow, sequences: 8, steps: 500 };
    expect(speedIn(then, false, policy)).toBeGreaterThan(0.95 * speedIn(then, true));
  });
});

describe("[SP34] costs that were measured before any request", () => {
  /** What was measured ahead in a world of one sequence. */
  const aheadIn = (msOf: (nodes: number) => number, networkMs: number) => {
    const row = (extraMs: number) => [
      {
        sequences: 1,
        points: [0, 1, 4, 8, 16].map((nodes) => ({
          nodes,
          ms: msOf(nodes) + (nodes === 0 ? 0 : extraMs),
        })),
      },
    ];
    return { others: row(0), chain: row(networkMs), tree: row(networkMs) };
  };
  const slow = (nodes: number): number => 10 + 20 * nodes;

  test("a network that cannot pay is never tried", () => {
    const world = { sequences: 1, msOf: slow, rate: 0.9, networkMs: 5 };
    const policy = new DraftPolicy(256, aheadIn(slow, 5));
    expect(speedIn(world, false, policy)).toBe(speedIn(world, true));
  });

  test("looked-up drafts that are too unlikely are never tried", () => {
    const msOf = (nodes: number): number => 10 + 4 * nodes;
    const policy = new DraftPolicy(256, aheadIn(msOf, 0));
    let drafted = 0;
    for (let step = 0; step < 2000; step++) {
      const one = { sequences: 1, network: null, foresaw: false } as const;
      const [nodes = 0] = policy.allot([Float64Array.of(0.2, 0.04)], one);
      drafted += nodes;
      policy.record({ ...one, drafted: nodes, accepted: 0 }, msOf(nodes));
    }
    expect(drafted).toBe(0);
  });

  test("drafts that pay are verified from the first steps on", () => {
    const msOf = (nodes: number): number => 10 + 0.1 * nodes;
    const world = { sequences: 1, msOf, rate: 0.9, networkMs: 2, steps: 40 };
    const policy = new DraftPolicy(256, aheadIn(msOf, 2));
    expect(speedIn(world, false, policy)).toBeGreaterThan(2 * speedIn(world, true));
  });
});
