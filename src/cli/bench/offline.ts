import { systemClock } from "#base";
import type { LLM } from "#engine";
import { Progress } from "../progress.ts";
import { againstLimits, type GpuLimits, type LimitReport } from "./gpu-limits.ts";
import { randomPrompts } from "./random-prompts.ts";
import { median, summarize } from "./statistics.ts";

const MS_PER_SECOND = 1000;

export interface OfflineOptions {
  readonly inputLength: number;
  readonly outputLength: number;
  readonly prompts: number;
  readonly warmups: number;
  readonly iterations: number;
  readonly seed: number;
}

/** The device's limits; null: unknown. */
type Limits = GpuLimits | null;

/** Generates all prompts at once, each sequence to its full length; returns seconds. */
async function runOnce(llm: LLM, options: OfflineOptions, seed: number): Promise<number> {
  const { prompts, inputLength, outputLength } = options;
  const batch = randomPrompts(prompts, inputLength, llm.info.vocabularySize, seed);
  const started = systemClock.nowMs();
  await llm.generate(batch, {
    temperature: 0,
    maxTokens: outputLength,
    ignoreEos: true,
    detokenize: false,
  });
  return (systemClock.nowMs() - started) / MS_PER_SECOND;
}

/** Warm-up runs, then timed runs, each with fresh prompts: none hits the prefix cache. */
async function timeRuns(llm: LLM, options: OfflineOptions): Promise<number[]> {
  const { warmups, iterations, seed } = options;
  const progress = await Progress.start("measuring", warmups + iterations);
  const seconds: number[] = [];
  try {
    for (let run = 0; run < warmups + iterations; run++) {
      const taken = await runOnce(llm, options, seed + run);
      if (run >= warmups) seconds.push(taken);
      progress.advance();
    }
  } finally {
    progress.stop();
  }
  return seconds;
}

/** End-to-end time of one batch. */
export async function benchLatency(llm: LLM, options: OfflineOptions, limits: Limits = null) {
  const seconds = await timeRuns(llm, options);
  const typical = median(seconds);
  return {
    benchmark: "latency",
    ...describe(llm, options),
    latencySeconds: summarize(seconds),
    secondsPerOutputToken: typical / options.outputLength,
    outputTokensPerSecond: (options.prompts * options.outputLength) / typical,
    ...limited(llm, options, typical, limits),
  };
}

/** Requests and tokens per second with all requests sent at once. */
export async function benchThroughput(llm: LLM, options: OfflineOptions, limits: Limits = null) {
  const seconds = await timeRuns(llm, options);
  const typical = median(seconds);
  const { prompts, inputLength, outputLength } = options;
  return {
    benchmark: "throughput",
    ...describe(llm, options),
    seconds: summarize(seconds),
    requestsPerSecond: prompts / typical,
    outputTokensPerSecond: (prompts * outputLength) / typical,
    totalTokensPerSecond: (prompts * (inputLength + outputLength)) / typical,
    ...limited(llm, options, typical, limits),
  };
}

/** The run compared with the GPU's limits; no fields if these were not measured. */
function limited(
  llm: LLM,
  sizes: OfflineOptions,
  seconds: number,
  limits: Limits,
): { readonly limits?: LimitReport } {
  if (limits === null) return {};
  const { weightFormat, kvFormat } = llm.info;
  return { limits: againstLimits(limits, { sizes, seconds, weightFormat, kvFormat }) };
}

function describe(llm: LLM, options: OfflineOptions) {
  const { name, device, weightFormat, kvFormat, parameters } = llm.info;
  const { prompts, inputLength, outputLength, warmups, iterations } = options;
  return {
    model: name,
    parameters,
    device,
    weightFormat,
    kvFormat,
    prompts,
    inputLength,
    outputLength,
    warmups,
    iterations,
  };
}
