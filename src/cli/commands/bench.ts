import { randomInt } from "node:crypto";
import { type Command, InvalidArgumentError, Option } from "commander";
import { EngineError } from "#base";
import { gpuLimits } from "../bench/gpu-limits.ts";
import { benchLatency, benchThroughput, type OfflineOptions } from "../bench/offline.ts";
import type { OnlineOptions, OnlineRun } from "../bench/online.ts";
import { describeServer } from "../bench/server-model.ts";
import { benchLoads, sweptAxis } from "../bench/sweep.ts";
import { type Cell, textRow } from "../bench/text-table.ts";
import { addEngineFlags, loadModel } from "../engine-flags.ts";
import { offlineCharts, onlineCharts, sweepCharts } from "../plot/bench-plot.ts";
import { plotPath, plotTo } from "../plot/plot-file.ts";
import { plainText } from "../terminal-text.ts";

interface BenchFlags extends Record<string, unknown> {
  readonly inputLength: number;
  readonly outputLength: number;
  readonly prompts: number;
  readonly warmups: number;
  readonly iterations: number;
  readonly plot?: string;
}

interface OfflineFlags extends BenchFlags {
  readonly seed: number;
  readonly device?: unknown;
  readonly isa?: unknown;
  readonly table?: boolean;
}

interface ServeFlags extends BenchFlags {
  readonly url: string;
  readonly seed?: number;
  readonly chat?: boolean;
  readonly text?: boolean;
  readonly dataset?: string;
  readonly apiKey?: string;
  readonly requestRate?: readonly number[];
  readonly concurrency: readonly number[];
}

/** `perigee bench`. */
export function defineBench(bench: Command): void {
  offline(bench, "latency", "time of one batch, end to end", 8, benchLatency);
  offline(bench, "throughput", "requests and tokens per second", 64, benchThroughput);
  addLengthFlags(bench.command("serve"), 64)
    .description("Load a running server: time to first token, between tokens, and end to end.")
    .option(
      "--seed <n>",
      "Seed of prompts and arrivals. (default: a new one for each run, which is printed: " +
        "repeated prompts would be in the server's prefix cache)",
      whole,
    )
    .option("--chat", "Use the chat route, with one user message per request.")
    .option("--text", "Send random text of about as many tokens instead of token ids.")
    .option(
      "--dataset <file>",
      'Read prompts from JSON lines: texts, or objects with "prompt" or "messages".',
    )
    .option(
      "--warmups <n>",
      "Warm-up requests with other prompts, which are not counted.",
      whole,
      1,
    )
    .option("--url <url>", "Base address of the server.", "http://127.0.0.1:8000")
    .option("--api-key <text>", "API key, sent as bearer token. (default: PERIGEE_API_KEY)")
    .option(
      "--request-rate <list>",
      "Requests per second, Poisson arrivals; of several, 1,2,4, a run for each. " +
        "(default: all at once)",
      (text: string) => listOf(text, positive),
    )
    .addOption(
      new Option("--concurrency <list>", "Most concurrent requests; of several, a run for each.")
        .default([1024], "1024")
        .argParser((text) => listOf(text, count)),
    )
    .option("--plot <file.svg>", PLOT_HELP, plotPath)
    .action(serve);
}

const PLOT_HELP = "Draw the result: a file in SVG, written at the end.";

type Measure = typeof benchLatency | typeof benchThroughput;

function offline(
  bench: Command,
  name: string,
  description: string,
  prompts: number,
  measure: Measure,
): void {
  const command = addLoadFlags(bench.command(name), prompts)
    .description(`Measure ${description}; prints JSON.`)
    .option("--warmups <n>", "Warm-up runs, which are not counted.", whole, 1)
    .option("--iterations <n>", "Timed runs; the median is reported.", count, 5)
    .option(
      "--table",
      "Also print the result as a table on standard error. (default: on a terminal)",
    )
    .option("--plot <file.svg>", PLOT_HELP, plotPath)
    .action(async (model: string | undefined, flags: OfflineFlags) => {
      const plot = plotTo(flags.plot);
      const limits = await gpuLimits(model, flags);
      await using llm = await loadModel({ model, values: flags, needsText: false });
      const options: OfflineOptions = flags;
      const { result, timed } = await measure(llm, options, limits);
      print(result);
      if (flags.table ?? process.stderr.isTTY) process.stderr.write(tableOf(result));
      plot(() => offlineCharts(timed, result, result.limits?.limitSeconds ?? null));
    });
  addEngineFlags(command);
}

function addLoadFlags(command: Command, prompts: number): Command {
  return addLengthFlags(command, prompts).option(
    "--seed <n>",
    "Seed of the random prompts.",
    whole,
    0,
  );
}

function addLengthFlags(command: Command, prompts: number): Command {
  return command
    .option("--input-length <n>", "Tokens of each prompt.", count, 32)
    .option("--output-length <n>", "Tokens to generate for each prompt.", count, 128)
    .option("--prompts <n>", "Prompts.", count, prompts);
}

async function serve(flags: ServeFlags): Promise<void> {
  const plot = plotTo(flags.plot);
  const loads = {
    requestRates: flags.requestRate ?? [Number.POSITIVE_INFINITY],
    concurrencies: flags.concurrency,
  };
  const axis = sweptAxis(loads);
  const { runs, failures } = await benchLoads(await onlineOptions(flags), loads, (line) =>
    process.stderr.write(`perigee: ${plainText(line)}\n`),
  );
  const results = runs.map(({ result }) => result);
  print(axis === null ? (results[0] ?? {}) : results);
  for (const run of runs) tellCached(run);
  plot(() => (axis === null ? runs.flatMap(onlineCharts) : sweepCharts(runs, axis)));
  if (failures.length === 0) return;
  const names = failures.map(({ load }) => load).join("; ");
  throw new EngineError("NETWORK", `Cannot measure all loads: no request succeeded with ${names}`);
}

/** What is the same in each run. */
async function onlineOptions(flags: ServeFlags): Promise<OnlineOptions> {
  const apiKey = flags.apiKey ?? process.env.PERIGEE_API_KEY ?? null;
  const { model, vocabularySize } = await describeServer(flags.url, apiKey);
  return {
    url: flags.url,
    apiKey,
    model,
    vocabularySize,
    prompts: flags.prompts,
    inputLength: flags.inputLength,
    outputLength: flags.outputLength,
    requestRate: Number.POSITIVE_INFINITY,
    concurrencyMax: 1,
    seed: flags.seed ?? randomInt(SEED_LIMIT),
    chat: flags.chat === true,
    text: flags.text === true,
    dataset: flags.dataset ?? null,
    warmups: flags.warmups,
  };
}

function tellCached({ result }: OnlineRun): void {
  if (result.cachedShare < TOLD_SHARE) return;
  const percent = (100 * result.cachedShare).toFixed(0);
  process.stderr.write(
    `perigee: ${percent} % of the prompt tokens were in the server's prefix cache: the time ` +
      "to first token is lower than for new prompts\n",
  );
}

const SEED_LIMIT = 2 ** 31;
/** Cached share from which a notice is printed; chance and chat templates cause a smaller share. */
const TOLD_SHARE = 0.2;

type Result = Awaited<ReturnType<Measure>>["result"];

/** A run as a row: its time, the device's limit, and the share of it reached. */
function tableOf(result: Result): string {
  const { prompts, inputLength, outputLength, outputTokensPerSecond } = result;
  const seconds = "seconds" in result ? result.seconds : result.latencySeconds;
  const { limits, speculation } = result;
  const table = textRow([
    ["work", `${prompts} x ${inputLength} in, ${outputLength} out`],
    ["s, median", seconds.p50],
    ["tok/s out", outputTokensPerSecond],
    ...(speculation === undefined ? [] : draftCells(speculation)),
    ["limit, s", limits?.limitSeconds ?? null],
    ["ratio", limits?.ratio ?? null],
    ["copy GB/s", limits?.ceilings.copyGBs ?? null],
    ["bf16 TFLOP/s", limits?.ceilings.bf16TFLOPs ?? null],
  ]);
  const unknown = limits?.ceilings.bf16Unknown;
  return unknown === undefined ? table : `${table}bf16 TFLOP/s unknown: ${unknown}\n`;
}

function draftCells(found: NonNullable<Result["speculation"]>): Cell[] {
  const { tokensPerStep, speedUp, speedUpRange } = found;
  const [least, most] = speedUpRange;
  return [
    ["tokens a step", tokensPerStep],
    ["x without drafts", speedUp],
    ["least x", least],
    ["most x", most],
  ];
}

function print(result: object): void {
  process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
}

function whole(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new InvalidArgumentError("Wanted 0 or more.");
  return value;
}

function count(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError("Wanted 1 or more.");
  return value;
}

/** A number, or several with commas between them. */
function listOf(text: string, parse: (part: string) => number): number[] {
  const parts = text.split(",").map((part) => parse(part.trim()));
  if (parts.length <= RUNS_MAX) return parts;
  throw new InvalidArgumentError(`Wanted at most ${RUNS_MAX} numbers.`);
}

const RUNS_MAX = 32;

function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError("Wanted a number over 0.");
  return value;
}
