/**
 * Workers that compute prompts for each other, while every part of the fleet fails: long runs alone.
 * Short ones have each of these faults by name (test/cluster/router), and chaos.test.ts.
 */
import { expect, test } from "vitest";
import { full } from "../support/full.ts";
import { NO_REDIS } from "../support/redis-server.ts";
import { type ChaosOptions, runChaos } from "./chaos-run.ts";

const options: ChaosOptions = {
  ...{ requests: 1000, minutes: null, atOnce: 12, seed: 20_261_126 },
  ...{ mocks: 0, reals: 0, roleChanges: true },
  pools: { prefill: 2, decode: 2, both: 1, kv: 1, stages: 2 },
  requestsPerFault: 8,
};

test.runIf(full && NO_REDIS === null)(
  `[CL240] [CL258] ${options.requests} requests of pools under faults of all kinds (seed ${options.seed})`,
  async () => {
    const report = await runChaos(options);
    expect(report.problems).toEqual([]);
    const fetched = Object.values(report.blocks).map(({ received }) => received);
    expect(Math.max(...fetched)).toBeGreaterThan(0);
    expect(Object.keys(report.faults).length).toBeGreaterThan(10);
  },
  1_800_000,
);
