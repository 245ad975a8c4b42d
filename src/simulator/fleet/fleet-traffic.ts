import { type Rng, seededRng } from "#cluster";
import type { Trace, TraceRequest } from "../trace.ts";

/** A request that comes to a fleet at its time. */
export interface FleetRequest {
  readonly atMs: number;
  /** Shared, and must not change any more. */
  readonly tokens: Int32Array;
  readonly outputTokens: number;
  /** Null: the client sends no session. */
  readonly session: string | null;
}

/** Requests by their times. Prompts are made when they are due: all together take gigabytes. */
export interface FleetTraffic {
  readonly name: string;
  readonly requests: readonly { readonly atMs: number; readonly make: () => FleetRequest }[];
  /** Whole blocks of this many tokens are what prompts share. */
  readonly blockTokens: number;
}

/** How a trace becomes traffic. */
export interface TraceTrafficOptions {
  readonly name: string;
  /** Times of the trace are divided by it. */
  readonly speedUp: number;
  /** Requests that come later are left out, in ms of the trace. Default: none. */
  readonly untilMs?: number;
  /** Of the places within a step of the trace's clock. */
  readonly seed: number;
  /** A step of the trace's clock: Mooncake's traces count in 3 s. */
  readonly clockStepMs: number;
}

/** Generated tokens are below it: a made-up prompt never meets them by chance. */
const FIRST_TOKEN = 1 << 20;

/**
 * A trace of hash ids as prompts: token `k` of a block is a function of its id and `k`. Requests of
 * one step of the trace's clock come at times within it that the seed decides, in their order.
 */
export function traceTraffic(trace: Trace, options: TraceTrafficOptions): FleetTraffic {
  const { name, speedUp, seed, clockStepMs, untilMs = Number.POSITIVE_INFINITY } = options;
  const rng = seededRng(seed);
  const times = trace.requests
    .filter(({ timestampMs }) => timestampMs < untilMs)
    .map(({ timestampMs }) => (timestampMs + placeIn(clockStepMs, rng)) / speedUp)
    .sort((a, b) => a - b);
  const requests = times.map((atMs, at) => {
    const request = trace.requests[at];
    const make = () => requestOf(request, atMs, trace.blockTokens);
    return { atMs, make };
  });
  return { name, requests, blockTokens: trace.blockTokens };
}

function placeIn(stepMs: number, rng: Rng): number {
  return rng.next() * stepMs;
}

function requestOf(
  request: TraceRequest | undefined,
  atMs: number,
  blockTokens: number,
): FleetRequest {
  const { ids, inputTokens, outputTokens } = request ?? NONE;
  const tokens = new Int32Array(Math.max(inputTokens, 1));
  for (let at = 0; at < tokens.length; at++) {
    tokens[at] = tokenOf(ids[Math.floor(at / blockTokens)] ?? 0, at % blockTokens);
  }
  return { atMs, tokens, outputTokens: Math.max(outputTokens, 1), session: null };
}

const NONE = { ids: new Int32Array(0), inputTokens: 0, outputTokens: 0 };

function tokenOf(id: number, at: number): number {
  return FIRST_TOKEN + ((Math.imul(id + 1, 0x9e3779b1) ^ Math.imul(at + 1, 0x85ebca6b)) >>> 2);
}
