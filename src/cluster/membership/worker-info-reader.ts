/** Reads what a worker says of itself: it may be of another version, or no worker at all. */
import { EngineError } from "#base";
import type {
  ToldRole,
  TransferAddress,
  WorkerInfo,
  WorkerKind,
  WorkerKv,
  WorkerLoad,
  WorkerRole,
  WorkerState,
} from "#cluster/protocol";

const TEXT_LENGTH_MAX = 500;
const MODELS_MAX = 64;
const LEVELS_MAX = 3;
const GROUPS_MAX = 16;
const PORT_MAX = 65_535;
const ROLES: readonly WorkerRole[] = ["both", "prefill", "decode", "kv"];
const STREAM_PREFIX = "perigee:kv:";
/** The prefix, an id and an epoch. */
const STREAM_LENGTH_MAX = 2 * TEXT_LENGTH_MAX + 100;
const KINDS: readonly WorkerKind[] = ["perigee", "vllm", "sglang", "tensorrt-llm", "openai"];

/** A worker as it answers `GET /worker_info`. */
export interface ReportedWorker {
  readonly info: WorkerInfo;
  readonly state: Exclude<WorkerState, "unreachable">;
  /** Null: not told, or not readable. */
  readonly load: WorkerLoad | null;
}

/** Throws INVALID_ARGUMENT naming the first field that is not as it must be. */
export function readWorkerReport(value: unknown): ReportedWorker {
  const fields = objectOf(value, "the worker's answer");
  return {
    info: readWorkerInfo(fields),
    state: fields.state === "draining" ? "draining" : "ready",
    load: readLoad(fields.load),
  };
}

/** Throws INVALID_ARGUMENT naming the first field that is not as it must be. */
export function readWorkerInfo(value: unknown): WorkerInfo {
  const fields = objectOf(value, "the worker's answer");
  const kind = KINDS.find((known) => known === fields.kind);
  if (kind === undefined) throw unreadable("kind", `one of ${KINDS.join(", ")}`, fields.kind);
  return {
    id: textOf(fields.id, "id"),
    epoch: textOf(fields.epoch, "epoch"),
    url: readUrl(fields.url),
    kind,
    version: textOf(fields.version, "version"),
    models: listOf(fields.models, "models", MODELS_MAX).map((name) => textOf(name, "models")),
    fingerprint: fields.fingerprint == null ? null : textOf(fields.fingerprint, "fingerprint"),
    contextTokensMax: countOf(fields.contextTokensMax, "contextTokensMax"),
    kv: fields.kv == null ? null : readKv(fields.kv),
    ...(fields.role == null ? {} : { role: readRole(fields.role) }),
    ...(fields.roleEpoch == null ? {} : { roleEpoch: countOf(fields.roleEpoch, "roleEpoch") }),
    ...(fields.rolePinned === true ? { rolePinned: true } : {}),
    ...(fields.transfer == null ? {} : { transfer: readTransfer(fields.transfer) }),
  };
}

/** What a worker answers to `POST /worker_role`. Throws INVALID_ARGUMENT as the others do. */
export function readToldRole(value: unknown): ToldRole {
  const fields = objectOf(value, "the worker's answer");
  return {
    epoch: textOf(fields.epoch, "epoch"),
    role: readRole(fields.role),
    roleEpoch: countOf(fields.role_epoch, "role_epoch"),
  };
}

function readRole(value: unknown): WorkerRole {
  const role = ROLES.find((known) => known === value);
  if (role === undefined) throw unreadable("role", `one of ${ROLES.join(", ")}`, value);
  return role;
}

function readTransfer(value: unknown): TransferAddress {
  const fields = objectOf(value, "transfer");
  const port = countOf(fields.port, "transfer.port");
  if (port < 1 || port > PORT_MAX) throw unreadable("transfer.port", `1 to ${PORT_MAX}`, port);
  return { host: textOf(fields.host, "transfer.host"), port };
}

/** An address without a slash at the end. Throws INVALID_ARGUMENT for anything but http(s). */
export function readUrl(value: unknown): string {
  const text = textOf(value, "url");
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "") {
    throw unreadable("url", "an address such as http://10.0.0.7:8000", value);
  }
  return url.href.replace(/\/+$/, "");
}

function readKv(value: unknown): WorkerKv {
  const fields = objectOf(value, "kv");
  const windows = listOf(fields.groupWindows, "kv.groupWindows", GROUPS_MAX);
  return {
    blockTokens: countOf(fields.blockTokens, "kv.blockTokens"),
    blocks: listOf(fields.blocks, "kv.blocks", LEVELS_MAX).map((count) =>
      countOf(count, "kv.blocks"),
    ),
    groupWindows: windows.map((window) =>
      window === null ? null : countOf(window, "kv.groupWindows"),
    ),
    ...(fields.stream == null ? {} : { stream: streamOf(fields.stream) }),
  };
}

/** A key among those of event streams: no other key of Redis is read for a worker. */
function streamOf(value: unknown): string {
  const key = typeof value === "string" && value.length <= STREAM_LENGTH_MAX ? value : "";
  if (key.startsWith(STREAM_PREFIX) && !/\p{Cc}/u.test(key)) return key;
  throw unreadable("kv.stream", `a key that begins with ${STREAM_PREFIX}`, value);
}

function readLoad(value: unknown): WorkerLoad | null {
  if (typeof value !== "object" || value === null) return null;
  const fields = value as Readonly<Record<string, unknown>>; // any JSON object
  const { runningRequests, waitingRequests, blocksUsed, uncachedTokens } = fields;
  const numbers = [runningRequests, waitingRequests, blocksUsed, uncachedTokens];
  if (!numbers.every(isAmount)) return null;
  const [running = 0, waiting = 0, used = 0, uncached = 0] = numbers;
  return {
    runningRequests: running,
    waitingRequests: waiting,
    blocksUsed: Math.min(1, used),
    uncachedTokens: uncached,
    ...readFetched(fields.fetched),
  };
}

function readFetched(value: unknown): Pick<WorkerLoad, "fetched"> {
  if (typeof value !== "object" || value === null) return {};
  const { tokens, seconds } = value as Readonly<Record<string, unknown>>; // any JSON object
  return isAmount(tokens) && isAmount(seconds) ? { fetched: { tokens, seconds } } : {};
}

function isAmount(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

function objectOf(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>; // any JSON object
  }
  throw unreadable(name, "an object", value);
}

function listOf(value: unknown, name: string, lengthMax: number): readonly unknown[] {
  if (Array.isArray(value) && value.length > 0 && value.length <= lengthMax) return value;
  throw unreadable(name, `a list of 1 to ${lengthMax}`, value);
}

function textOf(value: unknown, name: string): string {
  // No control characters: names are printed in log lines.
  const isText = typeof value === "string" && value.length > 0 && value.length <= TEXT_LENGTH_MAX;
  if (isText && !/\p{Cc}/u.test(value)) return value;
  throw unreadable(name, `a text of 1 to ${TEXT_LENGTH_MAX} characters`, value);
}

function countOf(value: unknown, name: string): number {
  if (Number.isSafeInteger(value) && Number(value) >= 0) return Number(value);
  throw unreadable(name, "a whole number from 0", value);
}

function unreadable(name: string, wanted: string, value: unknown): EngineError {
  const given = value === undefined ? "missing" : (JSON.stringify(value) ?? "unreadable");
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot read a worker: ${name} must be ${wanted}, current value is ${given.slice(0, 100)}`,
    { param: name },
  );
}
