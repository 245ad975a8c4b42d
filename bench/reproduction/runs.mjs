/** Rows of simulated fleets: run, averaged over seeds, printed and kept. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { ConductorConfig } from "../../dist/cluster/index.js";
import { PAPER_COSTS, runPools } from "../../dist/simulator/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";
import { TRACE_TEXT, Traces } from "./traces.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

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

/**
 * `rows`: what is run, by flags; `after`: more of a run than its summary, from the results of all
 * seeds; `summary`: another one. `--traces` says on which.
 */
export async function runTable({ name, options, rows, summary = summaryOf, ...rest }) {
  const { after = () => ({}), traces = "conversation" } = rest;
  const { values: flags } = readFlags({
    options: {
      ...options,
      traces: { type: "string", default: traces },
      seeds: { type: "string", default: "1,2,3" },
      trace: { type: "string" },
      out: { type: "string", published: `${root}bench/results/reproduction-${name}.json` },
    },
  });
  const seeds = flags.seeds.split(",").map(Number);
  const loads = new Traces(flags.trace);
  const table = [];
  for (const trace of flags.traces.split(",")) {
    for (const row of rows({ ...flags, trace })) {
      const results = [];
      for (const seed of seeds) results.push(runRow(row, await loads.get(trace, seed), seed));
      const means = meansOf(results.map(summary));
      const full = { trace, ...row.row, ...means, ...after(results) };
      table.push(full);
      console.log(JSON.stringify(full));
    }
  }
  keep({ name, out: flags.out, traces: flags.traces.split(","), seeds, rows: table });
}

/** One fleet on one trace. `change`: another trace made of it. */
function runRow({ pools, conductor, speed = 1, costs = {}, change }, trace, seed) {
  const result = runPools({
    ...{ trace: change?.(trace, seed) ?? trace, seed, speed },
    ...{ prefillNodes: 1, decodeNodes: 1, ...pools, costs: { ...PAPER_COSTS, ...costs } },
    conductor: ConductorConfig.parse(conductor),
  });
  if (result.openBookings !== 0) throw new Error(`${result.openBookings} bookings were left open`);
  return result;
}

/** Writes what was measured, with the command that repeats it. */
export function keep({ name, out, traces, ...report }) {
  const full = {
    command: `node bench/reproduction/${name}.mjs ${process.argv.slice(2).join(" ")}`.trim(),
    machine: describeMachine(),
    note: "a simulated clock: times do not depend on the machine",
    ...(traces === undefined ? {} : { costs: PAPER_COSTS.name }),
    ...(traces === undefined ? {} : { traces: traces.map((trace) => TRACE_TEXT[trace]) }),
    ...report,
  };
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(out, `${JSON.stringify(full, null, 1)}\n`);
}

function meansOf(summaries) {
  const fields = Object.keys(summaries[0] ?? {});
  const mean = (field) => summaries.reduce((sum, one) => sum + one[field], 0) / summaries.length;
  return Object.fromEntries(fields.map((field) => [field, Number(mean(field).toPrecision(6))]));
}
