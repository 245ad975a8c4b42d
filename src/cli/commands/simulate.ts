import { closeSync, openSync, writeSync } from "node:fs";
import { basename } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { EngineError, messageOf } from "#base";
import { PREFILL_POLICIES, REJECTION_MODES } from "#cluster";
import {
  costsOf,
  type FleetConfig,
  loadCostModel,
  type NodeCosts,
  PAPER_COSTS,
  type PoolRequestRow,
  type PoolResult,
  parseFleet,
  poolReport,
  runPools,
  SYNTHETIC_REQUESTS,
  syntheticTrace,
  type TimeSpread,
  type Trace,
} from "#simulator";
import { type CsvCell, CsvFile } from "../csv-file.ts";
import { readFleet } from "../fleet-file.ts";
import { Progress } from "../progress.ts";
import { readTraceSource } from "../trace-source.ts";

interface SimulateFlags {
  readonly synthetic?: number | true;
  readonly fleet?: string;
  readonly policy?: string;
  readonly rejection?: string;
  readonly ttftDeadline?: number;
  readonly tbtDeadline?: number;
  readonly seed: number;
  readonly speed: number;
  readonly blockTokens: number;
  readonly decisions?: string;
  readonly csv?: string;
  readonly report?: string;
  readonly json?: boolean;
}

/** Some 60 bytes a block, 30 blocks a request: more are no longer held by a usual machine. */
const SYNTHETIC_MAX = 10_000_000;

/** docs/simulate.md has their meanings. */
const CSV_COLUMNS = [
  ...["request", "arrival_ms", "prompt_tokens", "cached_tokens", "output_tokens", "ttft_ms"],
  ...["tbt_mean_ms", "tbt_max_ms", "prefill", "decode", "decision"],
];

/** `perigee simulate`: a fleet with pools on a simulated clock. */
export function defineSimulate(command: Command): void {
  command
    .argument(
      "[trace]",
      "JSON lines: timestamp, input_length, output_length, hash_ids. -: of a pipe.",
    )
    .option("--synthetic [requests]", "Instead of a trace: documents and chats by --seed.", count)
    .option("--fleet <file>", "Fleet as YAML. Default: 8 prefill and 8 decode nodes of the paper.")
    .addOption(
      new Option("--policy <name>", "How the prefill node is chosen.").choices(PREFILL_POLICIES),
    )
    .addOption(
      new Option("--rejection <mode>", "When requests that miss deadlines are rejected.").choices(
        REJECTION_MODES,
      ),
    )
    .option("--ttft-deadline <ms>", "Deadline of the first token.", positive)
    .option("--tbt-deadline <ms>", "Deadline between tokens.", positive)
    .option("--seed <n>", "Seed of chance: the same gives the same result.", whole, 1)
    .option("--speed <n>", "Requests come so many times as often.", positive, 1)
    .option("--block-tokens <n>", "Tokens per block of the trace.", count, 512)
    .option("--decisions <file>", "Write each decision as a line of JSON.")
    .option("--csv <file>", "Write each request as a line: its tokens, times, nodes, decision.")
    .option("--report <file>", "Write a page with pictures: one HTML file, no network.")
    .option("--json", "Print JSON.")
    .action(async (path: string | undefined, flags: SimulateFlags) => {
      const result = await simulate(path, flags);
      process.stdout.write(
        flags.json === true ? `${JSON.stringify(result, null, 2)}\n` : text(result),
      );
    });
}

async function simulate(path: string | undefined, flags: SimulateFlags): Promise<PoolResult> {
  const fleet = fleetOf(flags);
  const costs = costsIn(fleet, flags.fleet);
  const trace = await traceOf(path, flags);
  const log = flags.decisions === undefined ? null : openOutput(flags.decisions, "decisions");
  const report = flags.report === undefined ? null : openOutput(flags.report, "report");
  const csv = flags.csv === undefined ? null : CsvFile.open(flags.csv, CSV_COLUMNS);
  const progress = await Progress.start("simulate", trace.requests.length, " requests");
  try {
    const result = runPools({
      ...{ ...fleet, trace, costs },
      ...{ seed: flags.seed, speed: flags.speed },
      ...(log === null ? {} : { onDecision: (line: string) => writeSync(log, `${line}\n`) }),
      ...(csv !== null && { onRequest: (row: PoolRequestRow) => csv.write(cellsOf(row)) }),
      onProgress: (requests) => progress.set(requests),
    });
    if (report !== null) writeSync(report, page(result, { path, fleet, flags, costs }));
    return result;
  } finally {
    progress.stop();
    csv?.close();
    for (const file of [log, report]) if (file !== null) closeSync(file);
  }
}

function cellsOf(row: PoolRequestRow): CsvCell[] {
  const { request, arrivalMs, promptTokens, cachedTokens, outputTokens } = row;
  const { ttftMs, tbtMeanMs, tbtMaxMs, prefill, decode, decision } = row;
  const tokens = [promptTokens, cachedTokens, outputTokens];
  return [request, arrivalMs, ...tokens, ttftMs, tbtMeanMs, tbtMaxMs, prefill, decode, decision];
}

/** The file's trace, or a made-up one. */
async function traceOf(path: string | undefined, flags: SimulateFlags): Promise<Trace> {
  const { synthetic, seed, blockTokens } = flags;
  if ((path === undefined) === (synthetic === undefined)) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot simulate: wanted either a trace or --synthetic, " +
        `current value is ${path === undefined ? "neither" : "both"}`,
      { param: "trace" },
    );
  }
  if (path === undefined) {
    const requests = synthetic === true ? SYNTHETIC_REQUESTS : (synthetic ?? SYNTHETIC_REQUESTS);
    if (requests <= SYNTHETIC_MAX) return syntheticTrace({ seed, requests });
    const wanted = `wanted at most ${SYNTHETIC_MAX} requests, current value is ${requests}`;
    throw new EngineError("INVALID_ARGUMENT", `Cannot simulate: ${wanted}`, { param: "synthetic" });
  }
  const trace = await readTraceSource(path, blockTokens);
  if (trace.kind === "blocks") return trace;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot simulate trace ${path}: wanted rows with hash_ids, current rows have token_ids`,
    { param: "trace" },
  );
}

/** The file's fleet, with what flags say instead. */
function fleetOf(flags: SimulateFlags): FleetConfig {
  const { fleet, policy, rejection, ttftDeadline, tbtDeadline } = flags;
  const described = fleet === undefined ? parseFleet({}) : readFleet(fleet);
  const conductor = {
    ...described.conductor,
    ...(policy === undefined ? {} : { policy }),
    ...(rejection === undefined ? {} : { rejection }),
    ...(ttftDeadline === undefined ? {} : { ttftDeadlineMs: ttftDeadline }),
    ...(tbtDeadline === undefined ? {} : { tbtDeadlineMs: tbtDeadline }),
  };
  return parseFleet({ ...described, conductor });
}

/** Throws what `loadCostModel` does, with the file that names the costs. */
function costsIn(fleet: FleetConfig, file: string | undefined): NodeCosts {
  try {
    return nodeCosts(fleet);
  } catch (thrown) {
    if (file === undefined || !(thrown instanceof EngineError)) throw thrown;
    const message = `${thrown.message}; costs stand in ${file}`;
    throw new EngineError(thrown.code, message, { cause: thrown, param: "fleet" });
  }
}

function nodeCosts(fleet: FleetConfig): NodeCosts {
  const network = fleet.networkBytesPerMs ?? PAPER_COSTS.networkBytesPerMs;
  const costs =
    fleet.costs === "paper" ? PAPER_COSTS : costsOf(loadCostModel(fleet.costs), network);
  return {
    ...costs,
    networkBytesPerMs: network,
    cacheTokens: fleet.cacheTokens ?? costs.cacheTokens,
    deviceTokens: fleet.deviceTokens ?? costs.deviceTokens,
  };
}

/** Opened before the run, which may take minutes. */
function openOutput(path: string, name: string): number {
  try {
    return openSync(path, "w");
  } catch (cause) {
    const message = `Cannot write ${name}: wanted a writable file, current value is ${path}`;
    throw new EngineError("IO", `${message} (${messageOf(cause)})`, { cause, param: name });
  }
}

interface RunDescription {
  readonly path: string | undefined;
  readonly fleet: FleetConfig;
  readonly flags: SimulateFlags;
  readonly costs: NodeCosts;
}

function page(result: PoolResult, { path, fleet, flags, costs }: RunDescription): string {
  const { prefillNodes, decodeNodes, coupledNodes, conductor } = fleet;
  const load = path === undefined ? "a synthetic trace" : basename(path);
  const nodes =
    coupledNodes > 0 ? `${coupledNodes} coupled` : `${prefillNodes} prefill, ${decodeNodes} decode`;
  const { ttftDeadlineMs, tbtDeadlineMs } = conductor;
  const deadline = (ms: number | null) => (ms === null ? "none" : `${ms} ms`);
  return poolReport(result, {
    ...{ title: `Perigee: ${load} on ${nodes} nodes`, ttftDeadlineMs, tbtDeadlineMs },
    settings: [
      ["costs", `${costs.name} (${costs.source})`],
      ["network, each way", `${(costs.networkBytesPerMs / 1e6).toFixed(1)} GB/s`],
      ["speed", `${flags.speed} times`],
      ["deadlines", `${deadline(ttftDeadlineMs)} first token, ${deadline(tbtDeadlineMs)} gaps`],
    ],
  });
}

function text(result: PoolResult): string {
  const rejected = Object.entries(result.rejected);
  const share = (value: number | null) => (value === null ? "-" : `${(100 * value).toFixed(1)} %`);
  const rows = [
    ["policy", `${result.policy}, rejection ${result.rejection}, seed ${result.seed}`],
    ["requests", `${result.requests}, completed ${result.completed}`],
    ["rejected", rejected.map(([reason, n]) => `${reason} ${n}`).join(", ") || "none"],
    ["first token, s", spread(result.ttftMs, 1000)],
    ["gaps' p99, ms", spread(result.tbtP99Ms, 1)],
    ["longest 10 % of gaps, ms", spread(result.tbtTailMs, 1)],
    ["within deadlines", `first ${share(result.ttftAttained)}, gaps ${share(result.tbtAttained)}`],
    ["prompt tokens found", share(result.hitRate)],
    ["fetched tokens", String(result.fetchedTokens)],
    ["transferred, GB", (result.transferBytes / 1e9).toFixed(1)],
    ["busy", `prefill ${share(result.prefillBusy)}, decode ${share(result.decodeBusy)}`],
    ["throughput", `${result.requestsPerSecond.toFixed(2)} requests/s`],
    ["output", `${result.outputTokensPerSecond.toFixed(0)} tokens/s`],
  ];
  const width = Math.max(...rows.map(([name = ""]) => name.length));
  return rows.map(([name = "", value = ""]) => `${name.padEnd(width)}  ${value}\n`).join("");
}

function spread({ mean, p50, p90, p99 }: TimeSpread, per: number): string {
  const [m, a, b, c] = [mean, p50, p90, p99].map((ms) => (ms / per).toFixed(per === 1 ? 1 : 2));
  return `mean ${m}, p50 ${a}, p90 ${b}, p99 ${c}`;
}

function positive(value: string): number {
  const number = Number(value);
  if (Number.isFinite(number) && number > 0) return number;
  throw new InvalidArgumentError("Wanted a number above 0.");
}

function whole(value: string): number {
  const number = Number(value);
  if (Number.isSafeInteger(number) && number >= 0) return number;
  throw new InvalidArgumentError("Wanted 0 or more.");
}

function count(value: string): number {
  const number = Number(value);
  if (Number.isSafeInteger(number) && number > 0) return number;
  throw new InvalidArgumentError("Wanted 1 or more.");
}
