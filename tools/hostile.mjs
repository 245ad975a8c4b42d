/**
 * npm run hostile -- [--requests 100000] [--seed 1] [--runs 3] [--servers 20] [--only CASE]
 *
 * The suite of test/hostile, for as long as wanted, and with times: no ordinary stream may pause
 * more than 250 ms longer than undisturbed. What a pause is suspected of is sent again alone; the
 * median of `runs` counts. After a server that ended or hangs, the next one takes over, `servers`
 * in all. Prints a table, and each failure with what reproduces it. Needs `npm run build`.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readFlags } from "./flags.mjs";

const MILLISECONDS_MAX = 24 * 60 * 60 * 1000;
const { values: flags } = readFlags({
  options: {
    requests: { type: "number", default: 100_000, min: 1 },
    seed: { type: "number", default: 1 },
    runs: { type: "number", default: 3, min: 1 },
    servers: { type: "number", default: 20, min: 1 },
    only: { type: "number", min: 0 },
  },
});
const folder = mkdtempSync(join(tmpdir(), "perigee-hostile-"));
const report = join(folder, "report.json");
const { status } = spawnSync(
  "npx",
  [
    ...["vitest", "run", "test/hostile/hostile.test.ts", "--reporter", "dot"],
    ...["--testTimeout", String(MILLISECONDS_MAX)],
  ],
  {
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      PERIGEE_HOSTILE: JSON.stringify({ ...flags, report }),
      PERIGEE_FULL: "1", // a busy day before it, and regressions at their own sizes
    },
  },
);
try {
  print(JSON.parse(readFileSync(report, "utf8")));
} finally {
  rmSync(folder, { recursive: true });
}
process.exit(status ?? 1);

function print({ failures, codes, memory, pauses, ...counts }) {
  const answers = Object.entries(codes).map(([code, count]) => `${code} ${count}`);
  const rows = {
    requests: `${counts.requests} in ${counts.cases} cases, ${counts.seconds} s`,
    "ordinary streams": `${counts.ordinaryStreams} read to the end`,
    answers: answers.join(", "),
    "sent a second time": String(counts.sentAgain),
    "memory, MiB": `${memory.start} before, ${memory.most} at most, ${memory.end} at the end`,
    "at most, each": `${memory.mostEach.join(" + ")} MiB, the server first`,
    "by tenths of the run": memory.tenths.join(", "),
    [`after ${memory.warmRequests} requests`]: `${memory.warm} MiB`,
    "longest pause": pauses === null ? "not measured" : pauseText(pauses),
    failures: String(failures.length),
  };
  for (const [name, value] of Object.entries(rows)) console.log(`${name.padEnd(22)}${value}`);
  for (const { check, cases, detail, reproduction } of failures) {
    console.log(`\n${check}: ${detail}\n  ${cases.join("\n  ")}\n${reproduction}`);
  }
}

function pauseText({ worstMs, worstCase, undisturbedMs }) {
  return `${Math.round(worstMs)} ms (${worstCase}), undisturbed ${Math.round(undisturbedMs)} ms`;
}
