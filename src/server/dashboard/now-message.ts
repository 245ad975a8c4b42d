/** The server's state as the page reads it, once a tick. */
import type { EngineStats } from "#engine";
import type { Quantiles } from "./latency-buckets.ts";
import type { EndedNews } from "./request-watch.ts";
import type { StepBin } from "./step-bins.ts";

/** What one tick collected. */
export interface Tick {
  /** Of the server's clock, in ms. */
  readonly nowMs: number;
  readonly stats: EngineStats;
  readonly requestsInWork: number;
  readonly firstToken: Quantiles;
  readonly gap: Quantiles;
  readonly steps: readonly StepBin[];
  readonly ended: readonly EndedNews[];
  readonly endedMore: number;
  readonly viewers: number;
}

/** The message `now`: gauges, counters since the start, and the steps since the last message. */
export function nowMessage(tick: Tick): unknown {
  const { stats } = tick;
  return {
    ms: Math.round(tick.nowMs),
    viewers: tick.viewers,
    inWork: tick.requestsInWork,
    running: stats.running,
    waiting: stats.waiting,
    paused: stats.paused,
    uncomputedTokens: stats.uncomputedTokens,
    blocks: [stats.freeBlocks, stats.heldBlocks, stats.cachedBlocks],
    totals: {
      steps: stats.steps,
      preemptions: stats.preemptions,
      promptTokens: stats.promptTokens,
      cachedPromptTokens: stats.cachedPromptTokens,
      computedPromptTokens: stats.computedPromptTokens,
      generatedTokens: stats.generatedTokens,
      draftedTokens: stats.draftedTokens,
      acceptedTokens: stats.acceptedTokens,
    },
    firstToken: quantiles(tick.firstToken),
    gap: quantiles(tick.gap),
    steps: tick.steps.map(stepRow),
    ended: tick.ended.map(endedRow),
    endedMore: tick.endedMore,
  };
}

function quantiles({ count, p50, p99 }: Quantiles) {
  return { count, p50: p50 === null ? null : round(p50), p99: p99 === null ? null : round(p99) };
}

/** In the order of `StepBin`'s fields. */
function stepRow(bin: StepBin): readonly number[] {
  return [
    Math.round(bin.endMs),
    bin.steps,
    ...[round(bin.seconds), round(bin.hostSeconds), round(bin.longestSeconds)],
    ...[bin.prefill, bin.drafted, bin.decode, bin.accepted, bin.sequences],
  ];
}

/** In the order of `EndedNews`' fields. */
function endedRow(ended: EndedNews): readonly number[] {
  return [
    ...[ended.promptTokens, ended.cachedTokens, ended.generatedTokens],
    ...[round(ended.queueSeconds), round(ended.prefillSeconds), round(ended.decodeSeconds)],
  ];
}

/** Microseconds are enough. */
function round(seconds: number): number {
  return Math.round(seconds * 1e6) / 1e6;
}
