/**
 * node bench/reproduction/scale.mjs [--rows hour:16,10000:128,100000:128,1000000:128,1000000:1000]
 *   [--seed 1] [--trace FILE] [--out FILE]
 *
 * What simulating costs: requests (`hour`: the conversation trace) on so many workers, half of them
 * for prompts, with requests coming as often per worker as on the paper's 16. Seconds of one
 * process per row by the clock and of processor time (which counts V8's helper threads, too, and
 * less of other work), events a second of processor time, and the most memory it held.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ConductorConfig } from "../../dist/cluster/index.js";
import { PAPER_COSTS, runPools, syntheticTrace } from "../../dist/simulator/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { keep } from "./runs.mjs";
import { Traces } from "./traces.mjs";

const { values: flags } = readFlags({
  options: {
    rows: { type: "string", default: "hour:16,10000:128,100000:128,1000000:128,1000000:1000" },
    seed: { type: "number", default: 1 },
    trace: { type: "string" },
    one: { type: "boolean", default: false },
    out: { type: "string", published: "bench/results/reproduction-scale.json" },
  },
});
const HEAP_MB = 20_000;
/** Room for new objects: with V8's 16 a tenth of the time goes into copying what still lives. */
const SEMI_SPACE_MB = 64;
const PAPER_WORKERS = 16;

async function measure(row) {
  const [load, workers] = row.split(":");
  const nodes = Number(workers);
  const trace =
    load === "hour"
      ? await new Traces(flags.trace).get("conversation", flags.seed)
      : syntheticTrace({ seed: flags.seed, requests: Number(load) });
  const result = runPools({
    ...{ trace, seed: flags.seed, speed: nodes / PAPER_WORKERS, costs: PAPER_COSTS },
    ...{ prefillNodes: nodes / 2, decodeNodes: nodes / 2 },
    conductor: ConductorConfig.parse({}),
  });
  const wallS = Number((performance.now() / 1000).toFixed(1));
  const { user, system } = process.cpuUsage();
  const seconds = (user + system) / 1e6;
  return {
    ...{ load, workers: nodes, requests: result.requests, completed: result.completed },
    ...{ events: result.events, wallS, cpuS: Number(seconds.toFixed(1)) },
    eventsPerS: Math.round(result.events / seconds),
    memoryGb: Number((process.resourceUsage().maxRSS / 2 ** 20).toFixed(2)),
    ...{ ttftS: result.ttftMs.mean / 1000, hitRate: result.hitRate },
  };
}

if (flags.one) {
  console.log(JSON.stringify(await measure(flags.rows)));
} else {
  const rows = flags.rows.split(",").map((row) => {
    const traceFlags = flags.trace === undefined ? [] : ["--trace", flags.trace];
    const script = [fileURLToPath(import.meta.url), "--one", "--rows", row];
    const seed = ["--seed", String(flags.seed)];
    const { stdout, status } = spawnSync(
      process.execPath,
      [
        ...[`--max-old-space-size=${HEAP_MB}`, `--max-semi-space-size=${SEMI_SPACE_MB}`],
        ...[...script, ...seed, ...traceFlags],
      ],
      { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] },
    );
    if (status !== 0) throw new Error(`${row} ended with ${status}`);
    process.stdout.write(stdout);
    return JSON.parse(stdout);
  });
  keep({ name: "scale", out: flags.out, rows });
}
