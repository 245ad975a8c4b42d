import { describe, expect, test } from "vitest";
import { StepCosts } from "#speculative";

function measured(steps: readonly (readonly [sequences: number, nodes: number, ms: number])[]) {
  const costs = new StepCosts();
  for (const [sequences, nodes, ms] of steps) costs.record({ sequences, nodes }, ms);
  return costs;
}

describe("[SP20] measured steps", () => {
  test("nothing is expected before a plain step of about as many sequences was measured", () => {
    const costs = measured([
      [1, 4, 12],
      [8, 0, 20],
    ]);
    expect(costs.of(1)).toBe(null);
    expect(costs.of(7)?.ms(0)).toBe(20);
    expect(costs.plainSteps(1)).toBe(0);
    expect(costs.plainSteps(8)).toBe(1);
  });

  test("disturbed steps change no expectation, as long as they are few", () => {
    const costs = measured([10, 11, 900, 10, 900, 10, 900].map((ms) => [2, 0, ms]));
    expect(costs.of(2)?.ms(0)).toBe(10);
  });

  test("the last 31 count: many that follow each other may all be disturbed", () => {
    const steps = (count: number, ms: number) =>
      Array.from({ length: count }, () => [2, 0, ms] as const);
    expect(
      measured([...steps(9, 10), ...steps(22, 20)])
        .of(2)
        ?.ms(0),
    ).toBe(10);
    expect(
      measured([...steps(9, 10), ...steps(31, 20)])
        .of(2)
        ?.ms(0),
    ).toBe(20);
  });

  test("of those before the last 256 steps, seven at least", () => {
    const costs = measured(Array.from({ length: 12 }, () => [2, 0, 10] as const));
    for (let step = 0; step < 300; step++) costs.pass();
    for (let step = 0; step < 6; step++) costs.record({ sequences: 2, nodes: 0 }, 20);
    // One of seven is the earlier one: a quartile of six times 20 and once 10.
    expect(costs.plainSteps(2)).toBe(7);
    expect(costs.of(2)?.ms(0)).toBe(20);
  });

  test("between two sizes, and behind the largest, the line through them", () => {
    const drafted = [
      [1, 2, 14],
      [1, 4, 16],
      [1, 8, 32],
    ] as const;
    const msOf = measured([[1, 0, 10], ...drafted, ...drafted]).of(1);
    expect([0, 1, 2, 3, 4, 6, 8, 10].map((nodes) => msOf?.ms(nodes))).toEqual([
      10, 14, 14, 15, 16, 24, 32, 40,
    ]);
  });

  test("the first step of a size with drafts is left out: kernels are compiled in it", () => {
    const costs = measured([
      [1, 0, 10],
      [1, 4, 900],
    ]);
    expect(costs.nodesMeasured(1)).toBe(0);
    costs.record({ sequences: 1, nodes: 4 }, 12);
    expect(costs.nodesMeasured(1)).toBe(4);
    expect(costs.of(1)?.ms(4)).toBe(12);
  });

  test("before the first draft a node is expected to cost a quarter of a row", () => {
    const msOf = measured([[4, 0, 10]]).of(4);
    expect(msOf?.ms(8)).toBe(15);
  });

  test("a size that is not seen again is forgotten, a plain step is not", () => {
    const costs = measured([
      [1, 0, 10],
      [1, 8, 1000],
      [1, 8, 1000],
      ...Array.from({ length: 1100 }, () => [1, 2, 11] as const),
    ]);
    expect(costs.of(1)?.ms(8)).toBeLessThan(20);
    expect(costs.of(1)?.ms(0)).toBe(10);
  });
});

describe("[SP34] costs that were measured before any request", () => {
  const rows = [
    {
      sequences: 1,
      points: [
        { nodes: 0, ms: 10 },
        { nodes: 4, ms: 15 },
      ],
    },
    {
      sequences: 16,
      points: [
        { nodes: 0, ms: 20 },
        { nodes: 16, ms: 40 },
      ],
    },
  ];

  test("are shares of a plain step, of the nearest number of sequences that is alike", () => {
    const costs = new StepCosts(rows);
    expect(costs.of(12)).toBe(null);
    costs.record({ sequences: 1, nodes: 0 }, 30);
    costs.record({ sequences: 12, nodes: 0 }, 30);
    expect(costs.of(1)?.ms(4)).toBeCloseTo(45);
    expect(costs.of(12)?.ms(16)).toBeCloseTo(60);
    expect([costs.nodesMeasured(1), costs.nodesMeasured(12)]).toEqual([4, 16]);
    const known = [1, 2, 12, 22, 25].map((sequences) => costs.knows(sequences));
    expect([...known, new StepCosts().knows(1)]).toEqual([true, false, true, true, false, false]);
  });

  test("grow with what was measured since, from three steps of a size on", () => {
    const costs = new StepCosts([
      {
        sequences: 1,
        points: [
          { nodes: 0, ms: 10 },
          { nodes: 4, ms: 15 },
          { nodes: 16, ms: 30 },
        ],
      },
    ]);
    costs.record({ sequences: 1, nodes: 0 }, 10);
    // The first of a size is left out.
    for (let step = 0; step < 3; step++) costs.record({ sequences: 1, nodes: 4 }, 30);
    expect(costs.of(1)?.ms(4)).toBe(15);
    costs.record({ sequences: 1, nodes: 4 }, 30);
    expect([costs.of(1)?.ms(4), costs.of(1)?.ms(16)]).toEqual([30, 60]);
  });

  test("are at least 0.8 of what they were: a plain step was slow while code was new", () => {
    const costs = new StepCosts(rows);
    costs.record({ sequences: 1, nodes: 0 }, 40);
    for (let step = 0; step < 4; step++) costs.record({ sequences: 1, nodes: 4 }, 15);
    expect(costs.of(1)?.ms(4)).toBeCloseTo(0.8 * 60);
  });
});
