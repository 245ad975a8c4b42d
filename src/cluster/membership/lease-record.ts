/** A worker's entry in Redis, as JSON: written by the worker, read by routers. */
import { EngineError } from "#base";
import type { WorkerInfo, WorkerState } from "#cluster/protocol";
import { readWorkerInfo } from "./worker-info-reader.ts";

/** Set of all ids; entries of ids that are gone are removed by those who notice. */
export const WORKERS_KEY = "perigee:workers";
/** Where ids of workers that changed are published. */
export const WORKERS_CHANNEL = "perigee:workers";
/** Longest entry that is read. */
export const RECORD_LENGTH_MAX = 65_536;

const FORMAT = 1;
const LEASE_MS_MIN = 300;
const LEASE_MS_MAX = 600_000;

/** One entry. */
export interface LeaseRecord {
  readonly info: WorkerInfo;
  readonly state: Exclude<WorkerState, "unreachable"> | "left";
  /** Grows with each refresh: an entry that does not change is no sign of life. */
  readonly beat: number;
  readonly leaseMs: number;
}

/** The key of a worker's entry. */
export function workerKey(id: string): string {
  return `perigee:worker:${id}`;
}

/** Pairs with `readRecord`. */
export function writeRecord({ info, state, beat, leaseMs }: LeaseRecord): string {
  return JSON.stringify({ format: FORMAT, state, beat, leaseMs, info });
}

/** Throws INVALID_ARGUMENT for an entry of another format, or of another worker. */
export function readRecord(id: string, text: string): LeaseRecord {
  const value = parse(text);
  if (value.format !== FORMAT) {
    const given = `${JSON.stringify(value.format) ?? "missing"}`.slice(0, 100);
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot read worker ${id}: its format must be ${FORMAT}, current value is ${given}`,
    );
  }
  const info = readWorkerInfo(value.info);
  if (info.id !== id) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot read worker ${id}: its id must be the same, current value is ${info.id}`,
    );
  }
  const { state, beat, leaseMs } = value;
  return {
    info,
    state: state === "draining" || state === "left" ? state : "ready",
    beat: typeof beat === "number" ? beat : 0,
    leaseMs: Math.min(LEASE_MS_MAX, Math.max(LEASE_MS_MIN, Number(leaseMs) || 0)),
  };
}

function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw new EngineError("INVALID_ARGUMENT", "Cannot read a worker: its entry must be JSON");
}
