/** Whether a worker has room: requests in its own line cannot be put in order or sent elsewhere. */
import type { WorkerSpeeds } from "#cluster/protocol";
import { prefillMs } from "./load.ts";
import type { LoadBooks } from "./load-books.ts";

/** Load beyond which a worker is full. */
export interface RoomLimits {
  /** Longest wait for its first token that a further request would have, in ms. */
  readonly waitMsMax: number;
  /** Most requests at once; null: as many as it takes. */
  readonly requestsMax: number | null;
}

/**
 * Why a worker is full. `requests`: it has as many as it may, or refused one beside those it has.
 * `prompts`: those before would take too long, at its measured speed. `late`: one has waited too
 * long for its first token already, e.g. since its batch or its memory is full.
 */
export type Fullness = "requests" | "prompts" | "late";

/** Null: there is room. A worker whose requests all have their first token has it always. */
export function fullness(
  books: LoadBooks,
  workerId: string,
  speeds: WorkerSpeeds,
  { waitMsMax, requestsMax }: RoomLimits,
): Fullness | null {
  const { requests, uncachedTokens, uncachedPairs } = books.viewOf(workerId, speeds);
  if (requests === 0) return null;
  const takes = Math.min(requestsMax ?? Number.POSITIVE_INFINITY, books.takesMax(workerId));
  if (requests >= takes) return "requests";
  if (prefillMs(speeds, uncachedTokens, uncachedPairs) > waitMsMax) return "prompts";
  return books.lateMsOf(workerId, speeds) > waitMsMax ? "late" : null;
}
