/**
 * node bench/reproduction/role-changes.mjs [--loads "long phases;steady"] [--seeds 1] [--out FILE]
 *   [--trace FILE]
 *
 * Roles that follow the load against fixed ones: requests within both deadlines (TTFT <= 30 s, TBT
 * <= 100 ms) with each split of the nodes as it is, and with roles that change (`perigee route
 * --role-changes auto`, default settings) from the split that is best for the whole load and from
 * the worst. Loads are those of shifting-loads.mjs on 8 nodes, and Mooncake's conversations at two
 * paces on 16 (`--trace`, or PERIGEE_TRACES). With `--loads` rows of other loads stay in the file.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { ConductorConfig } from "../../dist/cluster/index.js";
import { PAPER_COSTS, parseFleet, runPools } from "../../dist/simulator/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { keep } from "./runs.mjs";
import { LOADS, shiftingTrace } from "./shifting-loads.mjs";
import { Traces } from "./traces.mjs";

const CONVERSATIONS = { conversations: 1, "conversations, 2.5 times as fast": 2.5 };
const DEADLINES = { ttftDeadlineMs: 30_000, tbtDeadlineMs: 100 };
const { roleChanges: SETTINGS } = parseFleet({ roleChanges: {} });
const root = fileURLToPath(new URL("../..", import.meta.url));

const { values: flags } = readFlags({
  options: {
    loads: { type: "string" },
    seeds: { type: "string", default: "1" },
    trace: { type: "string" },
    out: { type: "string", published: `${root}bench/results/reproduction-role-changes.json` },
  },
});
const all = [...Object.keys(LOADS), ...Object.keys(CONVERSATIONS)];
const names = flags.loads === undefined ? all : all.filter((name) => named(flags.loads, name));
const seeds = flags.seeds.split(",").map(Number);
const recorded = new Traces(flags.trace);
const rows = [];
for (const load of names) {
  const splits = splitsOf(load in CONVERSATIONS ? 16 : 8);
  const fixed = [];
  for (const split of splits) fixed.push(await rowOf(load, split, null));
  const ordered = fixed.toSorted((a, b) => b.goodput - a.goodput || a.ttftS - b.ttftS);
  const [best, worst] = [ordered[0], ordered.at(-1)];
  const autos = [];
  for (const { split } of [best, worst]) autos.push(await rowOf(load, split, SETTINGS));
  const [fromBest, fromWorst] = autos;
  const row = { load, best, fromBest, worst, fromWorst, fixed };
  rows.push(row);
  console.log(
    [
      `${load}: best ${best.split} ${best.goodput}, auto ${fromBest.goodput} `,
      `(${fromBest.changes} changes); worst ${worst.split} ${worst.goodput}, `,
      `auto ${fromWorst.goodput} (${fromWorst.changes})`,
    ].join(""),
  );
}
const before = existsSync(flags.out) ? JSON.parse(readFileSync(flags.out, "utf8")).rows : [];
const others = flags.loads === undefined ? [] : before.filter(({ load }) => !names.includes(load));
const order = ({ load }) => all.indexOf(load);
keep({
  ...{ name: "role-changes", out: flags.out, seeds, costs: PAPER_COSTS.name, settings: SETTINGS },
  command: "node bench/reproduction/role-changes.mjs",
  rows: [...others, ...rows].toSorted((a, b) => order(a) - order(b)),
});

/** Names have commas, so a list has semicolons. */
function named(list, name) {
  return list.split(";").some((part) => part.trim() === name);
}

/** All of 8 nodes; of 16, those of the middle. */
function splitsOf(nodes) {
  const [first, last] = nodes === 8 ? [1, 7] : [4, 12];
  return Array.from({ length: last - first + 1 }, (_, at) => `${first + at}+${nodes - first - at}`);
}

/** Means over the seeds. */
async function rowOf(load, split, roleChanges) {
  const [prefillNodes, decodeNodes] = split.split("+").map(Number);
  const results = [];
  for (const seed of seeds) {
    const isRecorded = load in CONVERSATIONS;
    const trace = isRecorded ? await recorded.get("conversation", seed) : shiftingTrace(load, seed);
    const result = runPools({
      ...{ trace, seed, prefillNodes, decodeNodes, costs: PAPER_COSTS, roleChanges },
      ...{ speed: CONVERSATIONS[load] ?? 1, conductor: ConductorConfig.parse(DEADLINES) },
    });
    if (result.openBookings !== 0) throw new Error(`${result.openBookings} bookings stayed open`);
    results.push(result);
  }
  const mean = (value, digits = 4) =>
    Number((results.reduce((sum, one) => sum + value(one), 0) / results.length).toFixed(digits));
  return {
    split,
    goodput: mean(({ goodput }) => goodput),
    ttftAttained: mean(({ ttftAttained }) => ttftAttained),
    tbtAttained: mean(({ tbtAttained }) => tbtAttained),
    ttftS: mean(({ ttftMs }) => ttftMs.mean / 1000, 2),
    tbtMs: mean(({ tbtTailMs }) => tbtTailMs.mean, 1),
    rejected: mean(({ requests, completed }) => (requests - completed) / requests),
    changes: mean((result) => result.roleChanges.length, 1),
  };
}
