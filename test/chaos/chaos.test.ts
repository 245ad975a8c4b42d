import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { sized } from "../support/full.ts";
import { NO_REDIS } from "../support/redis-server.ts";
import { type ChaosOptions, runChaos } from "./chaos-run.ts";
import { NO_POOLS } from "./chaos-workers.ts";

interface Wanted extends Partial<ChaosOptions> {
  /** File for the report. */
  readonly report?: string;
}

const { report: file, ...wanted }: Wanted = JSON.parse(process.env.PERIGEE_CHAOS ?? "{}");

const options: ChaosOptions = {
  requests: sized(100, 1000),
  seed: 20_261_125,
  mocks: sized(3, 4),
  reals: sized(0, 2),
  requestsPerFault: sized(8, 20),
  ...{ pools: NO_POOLS, roleChanges: false, minutes: null, atOnce: 48 },
  ...wanted,
};

test.skipIf(NO_REDIS !== null)(
  `[CL130] ${options.requests} requests under faults of all kinds (seed ${options.seed})`,
  async () => {
    const report = await runChaos({
      ...options,
      onProgress: (line) => {
        if (file !== undefined) process.stderr.write(`${line}\n`);
      },
    });
    if (file !== undefined) writeFileSync(file, JSON.stringify(report));
    expect(report.problems).toEqual([]);
    // How many there are depends on how long the requests take.
    expect(Object.keys(report.faults).length).toBeGreaterThan(sized(1, 5));
    expect(report.migrations + report.retries).toBeGreaterThan(0);
  },
);
