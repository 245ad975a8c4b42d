import { randomInt } from "node:crypto";
import { type Command, InvalidArgumentError } from "commander";
import { EngineError } from "#base";
import { gpuLimits } from "../bench/gpu-limits.ts";
import { benchLatency, benchThroughput, type OfflineOptions } from "../bench/offline.ts";
import { benchServe } from "../bench/online.ts";
import { type Cell, textRow } from "../bench/text-table.ts";
import { addEngineFlags, loadModel } from "../engine-flags.ts";

interface BenchFlags extends Record<string, unknown> {
  readonly inputLength: number;
  readonly outputLength: number;
  readonly prompts: number;
  readonly warmups: number;
  readonly iterations: number;
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
  readonly requestRate?: number;
  readonly concurrency: number;
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
      "--request-rate <n>",
      "Requests per second, Poisson arrivals. (default: all at once)",
      positive,
    )
    .option("--concurrency <n>", "Most concurrent requests.", count, 1024)
    .action(async (flags: ServeFlags) => print(await serve(flags)));
}

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
    .action(async (model: string | undefined, flags: OfflineFlags) => {
      const limits = await gpuLimits(model, flags);
      await using llm = await loadModel({ model, values: flags, needsText: false });
      const options: OfflineOptions = flags;
      const result = await measure(llm, options, limits);
      print(result);
      if (flags.table ?? process.stderr.isTTY) process.stderr.write(tableOf(result));
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

async function serve(flags: ServeFlags) {
  const apiKey = flags.apiKey ?? process.env.PERIGEE_API_KEY ?? null;
  const { model, vocabularySize } = await describeServer(flags.url, apiKey);
  const result = await benchServe({
    url: flags.url,
    apiKey,
    model,
    vocabularySize,
    prompts: flags.prompts,
    inputLength: flags.inputLength,
    outputLength: flags.outputLength,
    requestRate: flags.requestRate ?? Number.POSITIVE_INFINITY,
    concurrencyMax: flags.concurrency,
    seed: flags.seed ?? randomInt(SEED_LIMIT),
    chat: flags.chat === true,
    text: flags.text === true,
    dataset: flags.dataset ?? null,
    warmups: flags.warmups,
  });
  if (result.cachedShare >= TOLD_SHARE) {
    const percent = (100 * result.cachedShare).toFixed(0);
    process.stderr.write(
      `perigee: ${percent} % of the prompt tokens were in the server's prefix cache: the time ` +
        "to first token is lower than for new prompts\n",
    );
  }
  return result;
}

const SEED_LIMIT = 2 ** 31;
/** Cached share from which a notice is printed; chance and chat templates cause a smaller share. */
const TOLD_SHARE = 0.2;

const SAFE_VOCABULARY = 1000;

/** A server's model. Servers that do not report their vocabulary size receive only low ids. */
async function describeServer(url: string, apiKey: string | null) {
  const headers = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
  const read = async (path: string): Promise<unknown> => {
    const response = await fetch(new URL(path, url), { headers });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response.json();
  };
  try {
    const list = (await read("/v1/models")) as { data: { id: string }[] };
    const info = (await read("/server_info").catch(() => ({}))) as {
      model_details?: { vocabularySize?: number };
    };
    const vocabularySize = info.model_details?.vocabularySize ?? SAFE_VOCABULARY;
    return { model: list.data[0]?.id ?? "", vocabularySize };
  } catch (cause) {
    throw new EngineError(
      "NETWORK",
      `Cannot reach ${url}: wanted a running server (perigee serve)`,
      {
        cause,
      },
    );
  }
}

type Result = Awaited<ReturnType<Measure>>;

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

function draftCells({ tokensPerStep, speedUp }: NonNullable<Result["speculation"]>): Cell[] {
  return [
    ["tokens a step", tokensPerStep],
    ["x without drafts", speedUp],
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

function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError("Wanted a number over 0.");
  return value;
}
