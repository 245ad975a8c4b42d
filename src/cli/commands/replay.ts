import { basename } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { systemClock } from "#base";
import { EVICTION_POLICIES, type EvictionPolicyName } from "#kvcache";
import { type ReplayedRequest, type ReplayResult, replayTrace, type Trace } from "#simulator";
import { type CsvCell, CsvFile } from "../csv-file.ts";
import { plotPath, plotTo } from "../plot/plot-file.ts";
import { replayCharts } from "../plot/replay-plot.ts";
import { Progress } from "../progress.ts";
import { readTraceSource } from "../trace-source.ts";

interface ReplayFlags {
  /** In blocks; Infinity: no bound. */
  readonly capacity: readonly number[];
  readonly policy: readonly EvictionPolicyName[];
  readonly blockTokens: number;
  readonly json?: boolean;
  readonly plot?: string;
  readonly csv?: string;
}

const CAPACITIES = "1000,10000,30000,50000,100000,inf";
const POLICIES = "lru,lfu,length-aware,priority";
/** docs/replay.md has their meanings. */
const CSV_COLUMNS = [
  ...["policy", "capacity_blocks", "request", "arrival_ms", "prompt_tokens", "cached_tokens"],
  "output_tokens",
];

/** `perigee replay`: hit rates of a recorded load by pool size and eviction policy. */
export function defineReplay(command: Command): void {
  command
    .argument(
      "<trace>",
      "JSON lines: timestamp, input_length, output_length, hash_ids; or token_ids. -: of a pipe.",
    )
    .addOption(
      new Option("--capacity <blocks>", "Pool sizes in blocks; inf: no bound.")
        .default(capacities(CAPACITIES), CAPACITIES)
        .argParser(capacities),
    )
    .addOption(
      new Option("--policy <names>", `Eviction policies: any of ${EVICTION_POLICIES.join(", ")}.`)
        .default(policies(POLICIES), POLICIES)
        .argParser(policies),
    )
    .option("--block-tokens <n>", "Tokens per block of the trace.", blockTokens, 512)
    .option("--json", "Print JSON.")
    .option(
      "--plot <file.svg>",
      "Draw hit rates by pool size and policy: a file in SVG, written at the end.",
      plotPath,
    )
    .option("--csv <file>", "Write what each request finds: a line for each, pool and policy.")
    .action(async (path: string, flags: ReplayFlags) => {
      const plot = plotTo(flags.plot);
      const trace = await readTraceSource(path, flags.blockTokens);
      const results = await replayAll(trace, flags);
      process.stdout.write(flags.json === true ? json(results) : table(results));
      plot(() => replayCharts(results, { trace: basename(path) }));
    });
}

async function replayAll(trace: Trace, flags: ReplayFlags): Promise<readonly ReplayResult[]> {
  const runs = flags.policy.flatMap((policy) =>
    flags.capacity.map((capacity) => ({
      policy,
      capacityBlocks: Number.isFinite(capacity) ? capacity : null,
    })),
  );
  const requests = trace.requests.length;
  const csv = flags.csv === undefined ? null : CsvFile.open(flags.csv, CSV_COLUMNS);
  const progress = await Progress.start("replay", runs.length * requests, " requests");
  try {
    return runs.map((run, index) =>
      replayTrace(trace, {
        ...run,
        clock: systemClock,
        ...(csv !== null && { onRequest: (row: ReplayedRequest) => csv.write(cellsOf(run, row)) }),
        onProgress: (done) => progress.set(index * requests + done),
      }),
    );
  } finally {
    progress.stop();
    csv?.close();
  }
}

function cellsOf(
  { policy, capacityBlocks }: Pick<ReplayResult, "policy" | "capacityBlocks">,
  { request, arrivalMs, promptTokens, cachedTokens, outputTokens }: ReplayedRequest,
): CsvCell[] {
  const found = [promptTokens, cachedTokens, outputTokens];
  return [policy, capacityBlocks ?? "inf", request, arrivalMs, ...found];
}

function json(results: readonly ReplayResult[]): string {
  const rows = results.map(({ blockOperations, ...row }) => row);
  return `${JSON.stringify(rows, null, 2)}\n`;
}

function table(results: readonly ReplayResult[]): string {
  const heads = [
    "policy",
    "capacity",
    "block hits",
    "token hits",
    "evictions",
    "s",
    "M block ops/s",
  ];
  const rows = results.map((result) => [
    result.policy,
    result.capacityBlocks === null ? "inf" : String(result.capacityBlocks),
    result.blockHitRate.toFixed(4),
    result.tokenHitRate.toFixed(4),
    String(result.evictions),
    result.seconds.toFixed(2),
    (result.blockOperations / result.seconds / 1e6).toFixed(1),
  ]);
  const widths = heads.map((head, column) =>
    Math.max(head.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join("  ");
  const [first] = results;
  const trace = `${first?.requests ?? 0} requests, ${first?.blockRefs ?? 0} block references`;
  return `${[trace, "", line(heads), ...rows.map(line)].join("\n")}\n`;
}

function capacities(text: string): number[] {
  return text.split(",").map((part) => {
    const capacity = part.trim();
    if (capacity === "inf") return Number.POSITIVE_INFINITY;
    const blocks = Number(capacity);
    if (Number.isSafeInteger(blocks) && blocks > 0) return blocks;
    throw new InvalidArgumentError(`Wanted numbers of blocks or inf, got ${part}.`);
  });
}

function policies(text: string): EvictionPolicyName[] {
  return text.split(",").map((part) => {
    const name = EVICTION_POLICIES.find((policy) => policy === part.trim());
    if (name !== undefined) return name;
    throw new InvalidArgumentError(`Wanted any of ${EVICTION_POLICIES.join(", ")}, got ${part}.`);
  });
}

function blockTokens(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError("Wanted 1 or more.");
}
