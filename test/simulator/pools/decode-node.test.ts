import { expect, test } from "vitest";
import { drawIndex, seededRng } from "#cluster";
import { PAPER_COSTS } from "#simulator";
import { DecodeNode } from "../../../src/simulator/pools/decode-node.ts";
import { SimClock } from "../../../src/simulator/sim-clock.ts";

interface Load {
  readonly requests: number;
  readonly spanMs: number;
  readonly deviceTokens: number;
  readonly sequencesMax: number;
}

/** All that others notice of nodes of one clock, in order, and how often steps ran together. */
function decode(seed: number, load: Load, stepsOneByOne: boolean) {
  const rng = seededRng(seed);
  const clock = new SimClock();
  const told: (readonly (string | number)[])[] = [];
  const nodes = [0, 1, 2].map((at) => {
    const costs = { ...PAPER_COSTS, deviceTokens: load.deviceTokens };
    return new DecodeNode({
      ...{ clock, costs, blockTokens: 512, sequencesMax: load.sequencesMax, stepsOneByOne },
      contextTokensMax: load.deviceTokens,
      onReport: (step) => told.push(["report", clock.nowMs(), at, ...Object.values(step)]),
    });
  });
  for (let at = 0; at < load.requests; at++) {
    const node = nodes[drawIndex(rng, 3)];
    const inputTokens = 1 + drawIndex(rng, load.deviceTokens / 2);
    const outputTokens = 2 + drawIndex(rng, 300);
    const tokensMs: number[] = [];
    clock.at(rng.next() * load.spanMs, () =>
      node?.submit({
        ...{ id: String(at), inputTokens, outputTokens, priority: 0 },
        token: (atMs) => tokensMs.push(atMs),
        done: () => told.push(["done", clock.nowMs(), at, ...tokensMs]),
      }),
    );
  }
  clock.run();
  const passed = nodes.reduce((sum, { stepsPassed }) => sum + stepsPassed, 0);
  const left = nodes.map(({ requests }) => requests);
  return { told, left, busyMs: nodes.map(({ busyMs }) => busyMs), ran: clock.ran + passed, passed };
}

const LOADS: Record<string, Load> = {
  "few requests": { requests: 60, spanMs: 60_000, deviceTokens: 200_000, sequencesMax: 256 },
  "a crowd": { requests: 200, spanMs: 20_000, deviceTokens: 1_330_000, sequencesMax: 256 },
  "too few seats": { requests: 60, spanMs: 20_000, deviceTokens: 200_000, sequencesMax: 3 },
  "devices that are too full": {
    ...{ requests: 80, spanMs: 10_000, deviceTokens: 20_480, sequencesMax: 256 },
  },
};

for (const [name, load] of Object.entries(LOADS)) {
  for (const seed of [1, 2, 3]) {
    test(`steps that run together tell the same as steps one by one: ${name}, seed ${seed}`, () => {
      const together = decode(seed, load, false);
      const oneByOne = decode(seed, load, true);
      expect({ ...together, passed: 0 }).toEqual(oneByOne);
      expect(oneByOne.told.filter(([what]) => what === "done")).toHaveLength(load.requests);
      expect(together.passed).toBeGreaterThan(0);
    });
  }
}
