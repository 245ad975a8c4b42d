import { describe, expect, test } from "vitest";
import { budgetOf, CostLine } from "#speculative";
import { RandomNumbers } from "../contracts/device-ops/random.ts";

/** Costs of steps, measured at every number of nodes. */
const costsOf = (msOf: (nodes: number) => number) => {
  const points = Array.from({ length: 64 }, (_, at) => ({ nodes: at + 1, ms: msOf(at + 1) }));
  return { of: (sequences: number) => new CostLine(sequences, msOf(0), points) };
};
const chain = (rate: number, length: number) =>
  Float64Array.from({ length }, (_, place) => rate ** (place + 1));

/** The best of all ways to take leading nodes. */
function bestOf(
  offers: readonly Float64Array[],
  sequences: number,
  nodesMax: number,
  msOf: (nodes: number) => number,
): number {
  let best = sequences / msOf(0);
  const visit = (place: number, tokens: number, nodes: number): void => {
    const offer = offers[place];
    if (offer === undefined) {
      if (nodes <= nodesMax) best = Math.max(best, tokens / msOf(nodes));
      return;
    }
    let sum = tokens;
    visit(place + 1, sum, nodes);
    offer.forEach((survival, at) => {
      sum += survival;
      visit(place + 1, sum, nodes + at + 1);
    });
  };
  visit(0, sequences, 0);
  return best;
}

describe("[SP20] one budget over all sequences", () => {
  test("rows that cost nothing: all that is likely is verified", () => {
    const found = budgetOf([chain(0.9, 8), chain(0.5, 4)], {
      ...{ sequences: 2, nodesMax: 100, costs: costsOf(() => 10) },
    });
    expect(found?.take(found.taken)).toEqual([8, 4]);
    expect(found?.speed).toBeGreaterThan(found?.plainSpeed ?? 0);
  });

  test("rows that cost as much as steps: nothing is", () => {
    const costs = costsOf((nodes) => 10 * (1 + nodes));
    const found = budgetOf([chain(0.9, 8)], { sequences: 1, nodesMax: 100, costs });
    expect(found).toMatchObject({ taken: 0, expected: 0, speed: 0.1, plainSpeed: 0.1 });
    expect(found?.take(0)).toEqual([0]);
  });

  test("one request gets a deep chain, another nothing", () => {
    const costs = costsOf((nodes) => 10 + nodes);
    const found = budgetOf([chain(0.95, 8), chain(0.05, 8)], {
      ...{ sequences: 2, nodesMax: 100, costs },
    });
    expect(found?.take(found.taken)).toEqual([8, 0]);
  });

  test("no more than there is room for", () => {
    const found = budgetOf([chain(0.9, 8), chain(0.8, 8)], {
      ...{ sequences: 2, nodesMax: 5, costs: costsOf(() => 10) },
    });
    expect(found?.taken).toBe(5);
    expect(found?.take(5).reduce((sum, nodes) => sum + nodes, 0)).toBe(5);
  });

  test("room that is the mean of measured steps is rounded down", () => {
    const costs = costsOf(() => 10);
    const found = budgetOf([chain(0.9, 8)], { sequences: 1, nodesMax: 5.5, costs });
    expect(found?.take(found.taken)).toEqual([5]);
  });

  test("a likely node behind an unlikely one is had with it", () => {
    const costs = costsOf((nodes) => 10 + nodes);
    const tree = Float64Array.of(0.5, 0.02, 0.4);
    expect(budgetOf([tree], { sequences: 1, nodesMax: 9, costs })?.take(3)).toEqual([3]);
    expect(budgetOf([tree], { sequences: 1, nodesMax: 9, costs })?.taken).toBe(3);
  });

  test("as good as the best of all ways, where chains alone are offered", () => {
    const random = new RandomNumbers(3);
    for (let round = 0; round < 200; round++) {
      const offers = Array.from({ length: 1 + random.below(3) }, () =>
        chain((1 + random.below(98)) / 100, 1 + random.below(5)),
      );
      const sequences = offers.length + random.below(3);
      const [fixed, perNode] = [random.below(6), random.below(40) / 10];
      const msOf = (nodes: number) => 10 + (nodes > 0 ? fixed : 0) + perNode * nodes;
      const found = budgetOf(offers, { sequences, nodesMax: 12, costs: costsOf(msOf) });
      // Nodes below 1 % are left out, which costs at most as much.
      expect(found?.speed).toBeGreaterThan(0.98 * bestOf(offers, sequences, 12, msOf));
    }
  });

  test("nothing is known of such steps: no budget", () => {
    const costs = { of: () => null };
    expect(budgetOf([chain(0.9, 3)], { sequences: 1, nodesMax: 9, costs })).toBe(null);
  });
});
