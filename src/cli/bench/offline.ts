import { systemClock } from "#base";
import type { LLM, SpeculationInfo } from "#engine";
import { Progress } from "../progress.ts";
import { againstLimits, type GpuLimits, type LimitReport } from "./gpu-limits.ts";
import { randomPrompts } from "./random-prompts.ts";
import { median, type SpeedUp, speedUpOf, summarize } from "./statistics.ts";

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
async function runOnce(llm: LLM, options: OfflineOptions, run: OfflineRun): Promise<number> {
  const { prompts, inputLength, outputLength } = options;
  const batch = randomPrompts(prompts, inputLength, llm.info.vocabularySize, run.seed);
  const started = systemClock.nowMs();
  await llm.generate(batch, {
    temperature: 0,
    maxTokens: outputLength,
    ignoreEos: true,
    detokenize: false,
    ...(run.drafts ? {} : { speculative: false }),
  });
  return (systemClock.nowMs() - started) / MS_PER_SECOND;
}

interface OfflineRun {
  readonly seed: number;
  /** Whether tokens are drafted, where the model was loaded with drafts. */
  readonly drafts: boolean;
}

/** Seconds of the timed runs. */
export interface Timed {
  readonly seconds: readonly number[];
  /** Of as many runs without drafts, in turn with the others; none where nothing is drafted. */
  readonly undrafted: readonly number[];
}

/** Warm-up runs, then timed runs, each with fresh prompts: none hits the prefix cache. */
async function timeRuns(llm: LLM, options: OfflineOptions): Promise<Timed> {
  const { warmups, iterations, seed } = options;
  const kinds = llm.info.speculative === null ? [true] : [true, false];
  const progress = await Progress.start("measuring", kinds.length * (warmups + iterations));
  const timed = { seconds: [] as number[], undrafted: [] as number[] };
  try {
    for (let run = 0; run < warmups + iterations; run++) {
      for (const drafts of kinds) {
        // Prompts of their own: those of the other run are in the prefix cache.
        const own = kinds.length * (seed + run) + (drafts ? 0 : 1);
        const taken = await runOnce(llm, options, { seed: own, drafts });
        if (run >= warmups) (drafts ? timed.seconds : timed.undrafted).push(taken);
        progress.advance();
      }
    }
  } finally {
    progress.stop();
  }
  return timed;
}

/** What drafts did in all runs, and how much faster the timed ones were than those without. */
interface SpeculationReport extends SpeculationInfo, SpeedUp {
  readonly drafts: number;
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
  /** Of each sequence: accepted tokens need no step of their own. */
  readonly tokensPerStep: number;
  readonly secondsWithout: ReturnType<typeof summarize>;
}

/** What drafts brought; no fields where nothing is drafted. */
function speculation(
  llm: LLM,
  options: OfflineOptions,
  { seconds, undrafted }: Timed,
): { readonly speculation?: SpeculationReport } {
  const { speculative } = llm.info;
  if (speculative === null) return {};
  const { prompts, outputLength, warmups, iterations } = options;
  const { drafts, draftedTokens, acceptedTokens } = llm.stats();
  const tokens = prompts * outputLength * (warmups + iterations);
  return {
    speculation: {
      ...speculative,
      drafts,
      draftedTokens,
      acceptedTokens,
      tokensPerStep: tokens / (tokens - acceptedTokens),
      secondsWithout: summarize(undrafted),
      ...speedUpOf(seconds, undrafted),
    },
  };
}

/** End-to-end time of one batch, and that of each timed run. */
export async function benchLatency(llm: LLM, options: OfflineOptions, limits: Limits = null) {
  const timed = await timeRuns(llm, options);
  const typical = median(timed.seconds);
  const result = {
    benchmark: "latency",
    ...describe(llm, options),
    latencySeconds: summarize(timed.seconds),
    secondsPerOutputToken: typical / options.outputLength,
    outputTokensPerSecond: (options.prompts * options.outputLength) / typical,
    ...speculation(llm, options, timed),
    ...limited(llm, options, typical, limits),
  };
  return { result, timed };
}

/** Requests and tokens per second with all requests sent at once, and the timed runs. */
export async function benchThroughput(llm: LLM, options: OfflineOptions, limits: Limits = null) {
  const timed = await timeRuns(llm, options);
  const typical = median(timed.seconds);
  const { prompts, inputLength, outputLength } = options;
  const result = {
    benchmark: "throughput",
    ...describe(llm, options),
    seconds: summarize(timed.seconds),
    requestsPerSecond: prompts / typical,
    outputTokensPerSecond: (prompts * outputLength) / typical,
    totalTokensPerSecond: (prompts * (inputLength + outputLength)) / typical,
    ...speculation(llm, options, timed),
    ...limited(llm, options, typical, limits),
  };
  return { result, timed };
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
