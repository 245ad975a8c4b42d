/**
 * Whether a request is taken. Source: R. Qin et al. 2024, "Mooncake", section 7: load is how near
 * predicted times are to their deadlines. Looking at the decode pool's load of now makes both pools
 * swing in opposite directions, since what is let in now decodes one prefill later.
 */
import type { ConductorConfig, PriorityClass } from "./conductor-config.ts";
import type { PoolLoads, RejectionReason } from "./decision.ts";
import type { DecodeEstimator } from "./decode-estimator.ts";
import type { DecodeOutlook } from "./decode-outlook.ts";
import type { Instance } from "./instance-table.ts";

/** Deadlines of one request. */
export interface Deadlines {
  readonly ttftMs: number | null;
  readonly tbtMs: number | null;
}

/** The decode pool and what is known of its future. */
export interface DecodePool {
  readonly instances: readonly Instance[];
  readonly outlook: DecodeOutlook;
  readonly estimatorOf: (kind: string) => DecodeEstimator;
  /** How long a request decodes. */
  readonly decodeMs: number;
}

/** A request at the decode pool at the end of its prefill. */
export interface JoiningRequest {
  readonly nowMs: number;
  readonly atMs: number;
  readonly contextTokens: number;
}

/** The decode pool at a time. */
export interface DecodeState {
  /** Mean time between tokens of its instances. */
  readonly tbtMs: number;
  /** Part of its devices that is held; above 1, requests would wait between tokens for room. */
  readonly fullness: number;
}

/** The pool as it decodes now, with one more request. */
export function presentState(pool: DecodePool, { contextTokens }: JoiningRequest): DecodeState {
  const { instances, estimatorOf } = pool;
  const part = 1 / Math.max(instances.length, 1);
  let tbtMs = 0;
  let held = contextTokens;
  for (const { decode, kind } of instances) {
    const tokens = decode.decodingTokens + contextTokens * part;
    tbtMs += estimatorOf(kind).ms(decode.decoding + part, tokens) * part;
    held += decode.decodingTokens;
  }
  return { tbtMs, fullness: held / roomOf(instances) };
}

/** The same when its prompt will be computed: see `DecodeOutlook`. */
export function futureState(pool: DecodePool, joining: JoiningRequest): DecodeState {
  const { instances, estimatorOf, outlook, decodeMs } = pool;
  const { atMs, nowMs } = joining;
  const { requests, tokens } = outlook.at({ atMs, nowMs, decodeMs });
  const part = 1 / Math.max(instances.length, 1);
  const held = tokens + joining.contextTokens;
  let tbtMs = 0;
  for (const { kind } of instances) {
    tbtMs += estimatorOf(kind).ms((requests + 1) * part, held * part) * part;
  }
  return { tbtMs, fullness: held / roomOf(instances) };
}

/** Tokens that all devices hold; without a bound where one's is unknown. */
function roomOf(instances: readonly Instance[]): number {
  let room = 0;
  for (const { kvTokens } of instances) room += kvTokens > 0 ? kvTokens : Number.POSITIVE_INFINITY;
  return room > 0 ? room : Number.POSITIVE_INFINITY;
}

/** Both pools' loads as the mode looks at them. */
export function poolLoads(
  config: ConductorConfig,
  predicted: { readonly ttftMs: number; readonly decode: () => DecodeState },
  deadlines: Deadlines,
): PoolLoads {
  const { ttftMs, tbtMs } = deadlines;
  const looksAtDecode = config.rejection === "arrival" || config.rejection === "predicted";
  return {
    prefill: ttftMs === null ? null : predicted.ttftMs / ttftMs,
    decode: tbtMs === null || !looksAtDecode ? null : decodeLoad(predicted.decode(), tbtMs),
  };
}

/** A full device holds tokens up as a slow one does: the worse of both counts. */
export function decodeLoad({ tbtMs, fullness }: DecodeState, deadlineMs: number): number {
  return Math.max(tbtMs / deadlineMs, fullness);
}

/** Null: it is taken. */
export function rejectionOf(
  config: ConductorConfig,
  loads: PoolLoads,
  priority: PriorityClass,
): RejectionReason | null {
  if (config.rejection === "none") return null;
  const most = config.loadLimits[priority];
  if (loads.prefill !== null && loads.prefill > most) return "ttft";
  if (loads.decode !== null && loads.decode > most) return "tbt";
  return null;
}

const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 60_000;

/** When the load is likely to have fallen to what is taken. */
export function retryAfterMs(
  reason: RejectionReason,
  most: number,
  state: {
    readonly loads: PoolLoads;
    readonly ttftDeadlineMs: number | null;
    readonly decodeMs: number;
  },
): number {
  const { loads, ttftDeadlineMs, decodeMs } = state;
  const excessMs =
    reason === "ttft"
      ? ((loads.prefill ?? 0) - most) * (ttftDeadlineMs ?? 0)
      : reason === "tbt"
        ? decodeMs * (1 - most / Math.max(loads.decode ?? 1, most))
        : RETRY_MS_MAX;
  return Math.min(Math.max(Math.ceil(excessMs), RETRY_MS_MIN), RETRY_MS_MAX);
}
