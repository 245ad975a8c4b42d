import { describe, expect, test } from "vitest";
import { ForesightPolicy } from "../../src/engine/loop/foresight-policy.ts";
import { RandomNumbers } from "../contracts/device-ops/random.ts";

/** Steps of one kind: their ms, and tokens of each sequence. */
interface Way {
  readonly ms: number;
  readonly tokens: number;
}

interface World {
  readonly foresaw: Way;
  readonly plain: Way;
}

/** Runs steps in worlds one after another. Returns the tokens a ms of each, and steps that foresaw. */
function run(worlds: readonly World[], { sequences = 4, steps = 4000 } = {}) {
  const random = new RandomNumbers(5);
  const policy = new ForesightPolicy();
  let foresees = true;
  return worlds.map((world) => {
    let [tokens, ms, foreseen] = [0, 0, 0];
    for (let step = 0; step < steps; step++) {
      const way = world[foresees ? "foresaw" : "plain"];
      // Whole tokens, and each twentieth step is disturbed.
      const chance = random.below(1000) / 1000;
      const made = sequences * Math.floor(way.tokens + chance);
      const took = way.ms * (random.below(20) === 0 ? 6 : 0.9 + random.below(200) / 1000);
      policy.record({ sequences, tokens: made, foresaw: foresees }, took);
      tokens += made;
      ms += way.ms;
      if (foresees) foreseen++;
      foresees = policy.decide(sequences);
    }
    return { speed: tokens / ms, foreseen };
  });
}

const speedOf = ({ ms, tokens }: Way) => (4 * tokens) / ms;

describe("[SP28] drafts under a grammar", () => {
  test.for([
    ["forced text in long runs", { foresaw: { ms: 2, tokens: 3 }, plain: { ms: 1, tokens: 1 } }],
    [
      "masks that take eight times a step",
      { foresaw: { ms: 8, tokens: 1.5 }, plain: { ms: 1, tokens: 1 } },
    ],
    ["a little quicker", { foresaw: { ms: 1.2, tokens: 1.3 }, plain: { ms: 1, tokens: 1 } }],
    ["a little slower", { foresaw: { ms: 1.3, tokens: 1.2 }, plain: { ms: 1, tokens: 1 } }],
    ["nothing to foresee", { foresaw: { ms: 1.3, tokens: 1 }, plain: { ms: 1, tokens: 1 } }],
  ] as const)("give 97 %% of the better way at least: %s", ([, world]) => {
    const [found] = run([world]);
    const best = Math.max(speedOf(world.foresaw), speedOf(world.plain));
    expect(found?.speed).toBeGreaterThan(0.97 * best);
  });

  test("are made again when they begin to pay, and no more when they cease to", () => {
    const pays = { foresaw: { ms: 2, tokens: 3 }, plain: { ms: 1, tokens: 1 } };
    const costs = { foresaw: { ms: 3, tokens: 1.2 }, plain: { ms: 1, tokens: 1 } };
    const [first, second, third] = run([costs, pays, costs], { steps: 20_000 });
    expect(first?.foreseen).toBeLessThan(400);
    expect(second?.foreseen).toBeGreaterThan(12_000);
    expect(third?.foreseen).toBeLessThan(4000);
  });

  test("of other numbers of sequences are measured for themselves", () => {
    const policy = new ForesightPolicy();
    for (const [sequences, ms] of [
      [1, 1],
      [16, 30],
    ] as const) {
      for (let step = 0; step < 40; step++) {
        const foresaw = policy.decide(sequences);
        policy.record(
          { sequences, tokens: foresaw ? 2 * sequences : sequences, foresaw },
          foresaw ? ms : 1,
        );
      }
    }
    expect(policy.decide(1)).toBe(true);
    expect(policy.decide(16)).toBe(false);
  });
});
