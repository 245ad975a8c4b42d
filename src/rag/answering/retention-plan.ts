/** How long the parts of a prompt are kept: longest what other questions will have in common. */
import type { RetentionConfig } from "#kvcache";

/** Every question of a corpus begins with it. */
const PREAMBLE = { priority: 95, durationMs: 60 * 60_000 };
/** Passages that several recent questions used. */
const HOT = { priority: 70, durationMs: 20 * 60_000 };
/** Other passages: above what has no retention, since another question may find them. */
const COLD = { priority: 40, durationMs: 10 * 60_000 };
/** Questions and answers: no other prompt continues them. */
const TAIL = { priority: 5, durationMs: null };

/** Uses, older ones counting less, from which on a passage is hot. */
const HOT_USES = 2;

/** Where a prompt's parts begin, in tokens. */
export interface PromptPlaces {
  /** Of each passage, in order; behind them that of the question. */
  readonly starts: readonly number[];
  /** Uses of each passage, this one included. */
  readonly heat: readonly number[];
}

/**
 * A prompt's retention. Priorities never rise along the prompt: a block is found only through those
 * before it.
 */
export function retentionPlan({ starts, heat }: PromptPlaces): RetentionConfig {
  const [first = 0] = starts;
  const question = starts.at(-1) ?? 0;
  const cold = heat.findIndex((uses) => uses < HOT_USES);
  const coldStart = starts[cold < 0 ? heat.length : cold] ?? question;
  const parts = [
    { start: 0, end: first, ...PREAMBLE },
    { start: first, end: coldStart, ...HOT },
    { start: coldStart, end: question, ...COLD },
    { start: question, end: null, ...TAIL },
  ];
  return {
    ranges: parts.filter(({ start, end }) => end === null || end > start),
    decodePriority: TAIL.priority,
    decodeDurationMs: TAIL.durationMs,
  };
}
