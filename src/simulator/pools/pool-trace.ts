/** A trace as a fleet with pools reads it. */
import { EngineError } from "#base";
import type { Trace, TraceRequest } from "../trace.ts";

/** Some 30 years: what is beyond is no time in ms. */
const SPAN_MS_MAX = 1e12;

/** Traces may leave out a last block that is not full: it is the request's own. */
export function allBlocks(
  { ids, inputTokens }: TraceRequest,
  at: number,
  blockTokens: number,
): Int32Array {
  if (ids.length * blockTokens >= inputTokens) return ids;
  const all = new Int32Array(ids.length + 1);
  all.set(ids);
  all[ids.length] = -2 - at;
  return all;
}

/** From the start to the last request. Throws INVALID_ARGUMENT where it cannot be a time in ms. */
export function spanMs(trace: Trace, speed: number): number {
  const last = trace.requests.reduce((most, { timestampMs }) => Math.max(most, timestampMs), 0);
  const span = last / speed;
  if (span <= SPAN_MS_MAX) return span;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot simulate: timestamps at this speed must end before ${SPAN_MS_MAX} ms, ` +
      `current value is ${span}; timestamps are in ms`,
    { param: "trace" },
  );
}

/** Numbers of blocks as the index names them. */
export function unsigned(ids: Int32Array): Uint32Array {
  return new Uint32Array(ids.buffer, ids.byteOffset, ids.length);
}
