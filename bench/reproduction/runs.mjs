/** Rows of simulated fleets: run, averaged over seeds, printed and kept. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ConductorConfig } from "../../dist/cluster/index.js";
import { PAPER_COSTS, readTrace, runPools } from "../../dist/simulator/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const TRACE_BLOCK = 512;

/** Numbers of a run that tables show; times in s. */
export function summaryOf(result) {
  const rejected = Object.values(result.rejected).reduce((sum, count) => sum + count, 0);
  return {
    ttftS: result.ttftMs.mean / 1000,
    ttftP50S: result.ttftMs.p50 / 1000,
    ttftP90S: result.ttftMs.p90 / 1000,
    hitRate: result.hitRate,
    tbtTailMs: result.tbtTailMs.p90,
    completed: result.completed,
    rejected,
    late: result.rejected["tbt-late"] ?? 0,
    ttftAttained: result.ttftAttained ?? 1,
    tbtAttained: result.tbtAttained ?? 1,
    ttftError: result.predictionErrors.ttft,
  };
}

/** `rows`: what is run, by flags; `after`: more of a run than its summary. */
export async function runTable({ name, options, rows, after = () => ({}) }) {
  const { values: flags } = readFlags({
    options: {
      ...options,
      seeds: { type: "string", default: "1,2,3" },
      trace: { type: "string" },
      out: { type: "string", default: `${root}bench/results/reproduction-${name}.json` },
    },
  });
  const folder = process.env.PERIGEE_TRACES ?? join(root, "..", "shared", "traces");
  const path = flags.trace ?? join(folder, "conversation_trace.jsonl");
  if (!existsSync(path)) {
    console.error(`No trace at ${path}: set PERIGEE_TRACES or --trace`);
    process.exit(1);
  }
  const trace = await readTrace(path, TRACE_BLOCK);
  const seeds = flags.seeds.split(",").map(Number);
  const table = [];
  for (const { row, pools, conductor, speed = 1, costs = {} } of rows(flags)) {
    const results = seeds.map((seed) =>
      runPools({
        ...{ trace, seed, speed, ...pools, costs: { ...PAPER_COSTS, ...costs } },
        conductor: ConductorConfig.parse(conductor),
      }),
    );
    const open = results.reduce((sum, { openBookings }) => sum + openBookings, 0);
    if (open !== 0) throw new Error(`${open} bookings were left open`);
    const means = meansOf(results.map(summaryOf));
    const full = { ...row, ...means, ...after(results) };
    table.push(full);
    console.log(JSON.stringify(full));
  }
  const report = {
    command: `node bench/reproduction/${name}.mjs ${process.argv.slice(2).join(" ")}`.trim(),
    machine: describeMachine(),
    note: "a simulated clock: times do not depend on the machine",
    ...{ costs: PAPER_COSTS.name, trace: "conversation, raw timestamps", seeds, rows: table },
  };
  mkdirSync(dirname(flags.out), { recursive: true });
  writeFileSync(flags.out, `${JSON.stringify(report, null, 1)}\n`);
}

function meansOf(summaries) {
  const fields = Object.keys(summaries[0] ?? {});
  const mean = (field) => summaries.reduce((sum, one) => sum + one[field], 0) / summaries.length;
  return Object.fromEntries(fields.map((field) => [field, Number(mean(field).toPrecision(6))]));
}
