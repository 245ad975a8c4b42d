/** Workers that compute prompts for each other, while every part of the fleet fails. */
import { expect, test } from "vitest";
import { sized } from "../support/full.ts";
import { NO_REDIS } from "../support/redis-server.ts";
import { type ChaosOptions, runChaos } from "./chaos-run.ts";

const options: ChaosOptions = {
  ...{ requests: sized(40, 1000), minutes: null, atOnce: 12, seed: 20_261_126 },
  ...{ mocks: 0, reals: 0, roleChanges: true },
  pools: { prefill: 2, decode: 2, both: sized(0, 1), kv: sized(0, 1), stages: sized(0, 2) },
  requestsPerFault: sized(6, 8),
};

test.skipIf(NO_REDIS !== null)(
  `[CL240] [CL258] ${options.requests} requests of pools under faults of all kinds (seed ${options.seed})`,
  async () => {
    const report = await runChaos(options);
    expect(report.problems).toEqual([]);
    const fetched = Object.values(report.blocks).map(({ received }) => received);
    expect(Math.max(...fetched)).toBeGreaterThan(0);
    expect(Object.keys(report.faults).length).toBeGreaterThan(sized(1, 10));
  },
  sized(240_000, 1_800_000),
);
