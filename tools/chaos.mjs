/**
 * npm run chaos -- [--requests 10000] [--seed 1] [--mocks 4] [--reals 2] [--requests-per-fault 20]
 *   [--prefill 2 --decode 2 --both 1 --kv 1 --stages 2 --role-changes --mocks 0 --reals 0]
 *   [--minutes 30] [--at-once 48]
 *
 * The suite of test/chaos: requests with known answers through two routers of one Redis, while
 * workers, routers, Redis, clocks and the network fail in every way. Prints what was heard, which
 * faults there were, and what must not be. Needs `npm run build` and redis-server (or
 * valkey-server); the clock of Redis is set where there is a C compiler. With --prefill, --decode
 * or --both there are workers of these roles that give keys and values to each other, and requests
 * whose tokens must be those of a lone worker. --kv adds workers that give memory alone; --stages
 * a prefill worker whose prompts are computed by so many processes, each of which fails, too; with
 * --role-changes all other workers of pools are given other roles for a while.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readFlags, refuse } from "./flags.mjs";

const MILLISECONDS_MAX = 24 * 60 * 60 * 1000;
const { values: flags } = readFlags({
  options: {
    requests: { type: "number", default: 10_000, min: 1 },
    seed: { type: "number", default: 1 },
    mocks: { type: "number", default: 4, min: 0 },
    reals: { type: "number", default: 2, min: 0 },
    "requests-per-fault": { type: "number", default: 20, min: 1 },
    prefill: { type: "number", default: 0, min: 0 },
    decode: { type: "number", default: 0, min: 0 },
    both: { type: "number", default: 0, min: 0 },
    kv: { type: "number", default: 0, min: 0 },
    stages: { type: "number", default: 0, min: 0 },
    "role-changes": { type: "boolean", default: false },
    minutes: { type: "number", default: 0, min: 0 },
    "at-once": { type: "number", default: 48, min: 1 },
  },
});
const { requests, seed, mocks, reals, prefill, decode, both, kv, stages } = flags;
const roleChanges = flags["role-changes"];
if (decode + both === 0 && (kv + stages > 0 || roleChanges)) {
  refuse("Cannot use --kv, --stages or --role-changes: wanted --decode or --both beside them");
}
const options = {
  ...{ requests, seed, mocks, reals, roleChanges },
  pools: { prefill, decode, both, kv, stages },
  ...{ requestsPerFault: flags["requests-per-fault"], atOnce: flags["at-once"] },
  minutes: flags.minutes === 0 ? null : flags.minutes,
};
const folder = mkdtempSync(join(tmpdir(), "perigee-chaos-"));
const report = join(folder, "report.json");
console.log(`seed ${flags.seed}`);
const { status } = spawnSync(
  "npx",
  [
    ...["vitest", "run", "test/chaos/chaos.test.ts", "--reporter", "dot"],
    ...["--testTimeout", String(MILLISECONDS_MAX)],
  ],
  {
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      PERIGEE_CHAOS: JSON.stringify({ ...options, report }),
    },
  },
);
try {
  if (existsSync(report)) print(JSON.parse(readFileSync(report, "utf8")));
  else console.log("There is no report: redis-server is missing, or the run did not begin");
} finally {
  rmSync(folder, { recursive: true });
}
process.exit(status ?? 1);

function print({ heard, refusals, faults, parts, problems, memory, handles, ...counts }) {
  const list = (record) =>
    Object.entries(record)
      .map(([name, count]) => `${name} ${count}`)
      .join(", ");
  const rows = {
    requests: list(heard),
    faults: list(faults),
    ...Object.fromEntries(
      Object.entries(parts).map(([part, { faults: count, recovered }]) => [
        `faults, ${part}`,
        `${count}, recovered ${recovered}`,
      ]),
    ),
    "went on elsewhere": `${counts.migrations} behind, ${counts.retries} before the first token`,
    "blocks received and sent": Object.entries(counts.blocks)
      .map(([kind, { received, sent }]) => `${kind} ${received} and ${sent}`)
      .join(", "),
    "slowest request": `${counts.slowestMs} ms`,
    seconds: String(counts.seconds),
    problems: String(problems.length),
  };
  for (const [name, { start, most, end, warm, warmRequests, tenths }] of Object.entries(memory)) {
    rows[`${name}, MiB`] = `${start} before, ${most} at most, ${end} at the end`;
    rows[`${name}, after ${warmRequests}`] = `${warm}, by tenths of the run: ${tenths.join(", ")}`;
  }
  for (const [name, value] of Object.entries(handles)) rows[`descriptors, ${name}`] = value;
  for (const [name, value] of Object.entries(rows)) console.log(`${name.padEnd(34)}${value}`);
  for (const [reason, count] of Object.entries(refusals))
    console.log(`refused ${count}: ${reason}`);
  for (const problem of problems) console.log(`\n${problem}`);
}
