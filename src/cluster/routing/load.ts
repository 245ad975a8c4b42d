import type { Candidate, WorkerSpeeds } from "#cluster/protocol";
import { drawIndex, type Rng } from "./chance.ts";

/** Time until the worker would begin to compute a new prompt: what is queued, at its own speed. */
export function queueMs({ books, speeds }: Candidate): number {
  return prefillMs(speeds, books.uncachedTokens, books.uncachedPairs);
}

/** Time of computing prompt tokens that see others, themselves included. */
export function prefillMs(speeds: WorkerSpeeds, tokens: number, pairs: number): number {
  return tokens * speeds.prefillMsPerToken + pairs * (speeds.prefillMsPerPair ?? 0);
}

/** Pairs of the last `uncached` tokens of a prompt with all those before them. */
export function pairsOf(promptTokens: number, uncached: number): number {
  const cached = promptTokens - uncached;
  return (promptTokens * (promptTokens + 1) - cached * (cached + 1)) / 2;
}

/** Tokens of context that running requests hold, from their blocks. */
export function heldTokens({ books, blockTokens }: Candidate): number {
  return books.heldBlocks * blockTokens;
}

/**
 * A worker's load in ms: the prompts that wait, and one step of the requests that decode. Requests
 * that wait will decode too.
 */
export function loadMs(candidate: Candidate): number {
  const { books, speeds } = candidate;
  return queueMs(candidate) + speeds.decodeMs(books.requests + 1, heldTokens(candidate));
}

/** Costs that differ by less are equal. More would give hits away, with short prompts the most. */
const EQUAL_SHARE = 0.001;
const EQUAL_MS = 0.05;

/** The choice among equals, and whether there was one. */
export interface LeastChoice {
  readonly chosen: number;
  readonly tied: boolean;
}

/**
 * The index of the least cost. Among equals the least loaded is chosen, and chance decides among
 * those that are equal in load too: a burst never ends on the worker that happens to be first.
 */
export function chooseLeast(
  costs: readonly number[],
  candidates: readonly Candidate[],
  rng: Rng,
): LeastChoice {
  const least = Math.min(...costs);
  const margin = Math.max(EQUAL_MS, Math.abs(least) * EQUAL_SHARE);
  const equal = candidates.map((_, at) => at).filter((at) => (costs[at] ?? 0) <= least + margin);
  const loads = equal.map((at) => loadOf(candidates, at));
  const leastLoad = Math.min(...loads);
  const lightest = equal.filter((_, at) => (loads[at] ?? 0) <= leastLoad * (1 + EQUAL_SHARE));
  const chosen = lightest[drawIndex(rng, lightest.length)] ?? 0;
  return { chosen, tied: equal.length > 1 };
}

function loadOf(candidates: readonly Candidate[], at: number): number {
  const candidate = candidates[at];
  return candidate === undefined ? Number.POSITIVE_INFINITY : loadMs(candidate);
}
