import { setImmediate as nextTurn } from "node:timers/promises";
import { assert } from "#base";
import type { EngineOptions } from "#engine/protocol";

/** Calls begun in one turn of the event loop, so that other work gets turns in between. */
const BEGUN_AT_ONCE = 64;

/** Sequences that one caller may queue beyond those that run at once. */
const FOLLOWING_SEQUENCES = 64;

/** How many requests of `n` sequences one caller starts at a time. */
export function requestsAtOnce(
  scheduler: Pick<EngineOptions["scheduler"], "runningSequencesMax" | "waitingSequencesMax">,
  n: number,
): number {
  const { runningSequencesMax, waitingSequencesMax } = scheduler;
  const sequences = Math.min(waitingSequencesMax, runningSequencesMax + FOLLOWING_SEQUENCES);
  return Math.max(1, Math.floor(sequences / n));
}

/**
 * Maps a list with at most `limit` calls, 1 or more, under way; results are in the list's order.
 * Rejects with the first failure, and begins no further calls after it.
 */
export async function boundedMap<T, R>(
  list: readonly T[],
  limit: number,
  map: (item: T, place: number) => Promise<R>,
): Promise<R[]> {
  assert(limit >= 1, `Cannot map a list with at most ${limit} calls at once`);
  const results = new Array<R>(list.length);
  // All lanes read one iterator, so each item is taken once.
  const entries = list.entries();
  let failed = false;
  const lane = async (turn: Promise<void> | null) => {
    if (turn !== null) await turn;
    for (const [place, item] of entries) {
      if (failed) return;
      try {
        results[place] = await map(item, place);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  let turn: Promise<void> | null = null;
  const lanes = Array.from({ length: Math.min(limit, list.length) }, (_, index) => {
    if (index > 0 && index % BEGUN_AT_ONCE === 0) turn = turnAfter(turn);
    return lane(turn);
  });
  await Promise.all(lanes);
  return results;
}

async function turnAfter(turn: Promise<void> | null): Promise<void> {
  await turn;
  await nextTurn();
}
