/** A recorded trace of hash ids as traffic. */
import { seedFrom, uniformAt } from "#base";
import type { Trace } from "../trace.ts";
import { type Traffic, type TrafficPiece, type TrafficRequest, trafficOf } from "./traffic.ts";

/** How a trace becomes traffic. */
export interface TraceTrafficSettings {
  readonly name: string;
  /** Requests that come later are left out, in ms of the trace. Default: none. */
  readonly untilMs?: number;
  /** Of the places within a step of the trace's clock. Default: 0. */
  readonly seed?: number;
  /** A step of the trace's clock: Mooncake's traces count in 3 s. Default: 3000. */
  readonly clockStepMs?: number;
}

/** Contents of a trace are named (id, `TRACE_NAMES`), with ids in the order of their appearance. */
export const TRACE_NAMES = 1;
const CLOCK_STEP_MS = 3000;

/**
 * Each hash id becomes its block's tokens; the last block of a prompt has as many as are left.
 * Requests of one step of the trace's clock come within it, where the seed decides, in their order.
 */
export function traceRequests(trace: Trace, settings: TraceTrafficSettings): Traffic {
  const { name, seed = 0, clockStepMs = CLOCK_STEP_MS } = settings;
  const { untilMs = Number.POSITIVE_INFINITY } = settings;
  const rows = trace.requests.filter(({ timestampMs }) => timestampMs < untilMs);
  const key = seedFrom(seed);
  const times = rows
    .map(({ timestampMs }, row) => timestampMs + uniformAt(key, row) * clockStepMs)
    .sort((a, b) => a - b);
  const requests = rows.map(({ ids, inputTokens, outputTokens }, row): TrafficRequest => {
    const promptTokens = Math.max(1, inputTokens);
    return {
      ...{ id: `${name}-${row}`, atMs: times[row] ?? 0 },
      ...{ after: null, thinkMs: 0, session: null },
      pieces: piecesOf(ids, promptTokens, trace.blockTokens),
      promptTokens,
      outputTokens: Math.max(1, outputTokens),
    };
  });
  return trafficOf(name, requests);
}

function piecesOf(ids: Int32Array, tokens: number, blockTokens: number): TrafficPiece[] {
  const pieces: TrafficPiece[] = [];
  for (let start = 0; start < tokens; start += blockTokens) {
    const id = ids[Math.floor(start / blockTokens)] ?? 0;
    const count = Math.min(blockTokens, tokens - start);
    pieces.push({ role: "user", name: [id, TRACE_NAMES], tokens: count });
  }
  return pieces;
}
