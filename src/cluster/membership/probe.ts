/** Finds out by its answers which server is at an address, and what it serves. */
import { EngineError } from "#base";
import type { WorkerHttp } from "#cluster/http";
import type { WorkerInfo, WorkerKind, WorkerKv } from "#cluster/protocol";
import { boundedGet, type GetOptions, type SmallAnswer } from "./bounded-get.ts";
import { type ReportedWorker, readWorkerReport } from "./worker-info-reader.ts";

const MODELS_MAX = 64;
const NAME_LENGTH_MAX = 500;
/** Of a server that does not say how long its context is. */
const CONTEXT_UNKNOWN = 0;

/** Tokens for what is asked. */
export interface ProbeAccess {
  /** For Perigee's workers: the fleet's secret. */
  readonly secret: string | null;
  /** For all others: their API key. */
  readonly workerApiKey: string | null;
  /** What asks workers: it knows the authorities of https ones. Default: the system's alone. */
  readonly http?: WorkerHttp;
}

/** Where and how to ask. */
export interface ProbeTarget extends ProbeAccess {
  /** Without a slash at the end. */
  readonly url: string;
  readonly signal?: AbortSignal;
}

/** Why a server that starts is no worker yet. */
export const LOADING = "a model that is being loaded";

type JsonObject = Readonly<Record<string, unknown>>;

/** A card of `/v1/models`. */
interface ModelCard {
  readonly id: string;
  readonly owner: string;
  /** The model that it is an adapter of; null: it is none. */
  readonly parent: string | null;
  readonly contextTokensMax: number;
}

/**
 * Asks a server of unknown kind. Its `id` is its URL; a foreign server's epoch is `epoch`, since
 * none says when it started. Throws NETWORK where it does not answer, and INVALID_ARGUMENT where
 * it answers like no server that is known, with a reason of a few words.
 */
export async function probeWorker(target: ProbeTarget, epoch: string): Promise<ReportedWorker> {
  const own = await readReport(target);
  if (own !== null) return own;
  const cards = await modelsOf(target);
  const { kind, version, kv } = await identify(target, cards[0].owner);
  const info: WorkerInfo = {
    ...{ id: target.url, epoch, url: target.url, kind, version },
    ...listed(cards),
    fingerprint: null,
    kv,
  };
  return { info, state: "ready", load: null };
}

/** The same server with the models and adapters that it lists now. Throws as `probeWorker`. */
export async function withModels(target: ProbeTarget, info: WorkerInfo): Promise<WorkerInfo> {
  const now = listed(await modelsOf(target));
  const { adapters: _before, ...rest } = info;
  // What is equal is equal as text, too: fields keep their places.
  return now.adapters === undefined ? { ...rest, ...now } : { ...info, ...now };
}

/**
 * A Perigee's report, with its URL as it was given; null: the server is another one. Throws NETWORK
 * where it does not answer, loads its model or refuses the secret.
 */
export async function readReport(target: ProbeTarget): Promise<ReportedWorker | null> {
  const { url, secret } = target;
  const answer = await boundedGet(`${url}/worker_info`, withSignal(target, secret));
  if (answer.status === 401 || answer.status === 403) {
    throw new EngineError("NETWORK", `a refused secret (status ${answer.status})`);
  }
  if (answer.status === 503) throw new EngineError("NETWORK", LOADING);
  return answer.status === 200 ? readReportText(url, answer.text) : null;
}

/** The same from the text of an answer. Throws INVALID_ARGUMENT where it is none that can be. */
export function readReportText(url: string, text: string): ReportedWorker | null {
  const value = jsonOf(text);
  if (value === null || value.kind !== "perigee") return null;
  const report = readWorkerReport(value);
  return { ...report, info: { ...report.info, id: url, url } };
}

/** Whether a foreign server is well. Throws NETWORK where it is not. */
export async function checkHealth(target: ProbeTarget, kind: WorkerKind): Promise<void> {
  const path = kind === "openai" ? "/v1/models" : "/health";
  const { status } = await boundedGet(target.url + path, withSignal(target, target.workerApiKey));
  if (status >= 200 && status < 300) return;
  throw new EngineError("NETWORK", `status ${status} at ${path}`);
}

interface Identity {
  readonly kind: WorkerKind;
  readonly version: string;
  readonly kv: WorkerKv | null;
}

/** By the owner of its models, or by what else it answers. */
async function identify(target: ProbeTarget, owner: string): Promise<Identity> {
  if (/^tensorrt/i.test(owner)) {
    return {
      kind: "tensorrt-llm",
      version: await versionOf(target),
      kv: await trtllmCache(target),
    };
  }
  const sglang = owner === "vllm" ? null : await sglangOf(target);
  if (sglang !== null) return sglang;
  const metrics = await tryAsk(target, "/metrics");
  if (owner === "vllm" || metrics?.text.includes("\nvllm:")) {
    const kv = cacheConfigOf(metrics?.text ?? "");
    return { kind: "vllm", version: await versionOf(target), kv };
  }
  return { kind: "openai", version: "unknown", kv: null };
}

async function sglangOf(target: ProbeTarget): Promise<Identity | null> {
  for (const path of ["/server_info", "/get_server_info"]) {
    const answer = await tryAsk(target, path);
    const value = answer === null ? null : jsonOf(answer.text);
    if (value === null || !Number.isSafeInteger(value.page_size)) continue;
    const blockTokens = Math.max(1, Number(value.page_size));
    const tokens = Number(value.max_total_num_tokens);
    const blocks = Number.isFinite(tokens) ? Math.max(0, Math.floor(tokens / blockTokens)) : 0;
    const version = typeof value.version === "string" ? value.version : "unknown";
    return { kind: "sglang", version: short(version), kv: kvOf(blockTokens, blocks) };
  }
  return null;
}

/** Null: a release that does not tell how long its blocks are. It does not tell their number. */
async function trtllmCache(target: ProbeTarget): Promise<WorkerKv | null> {
  const answer = await tryAsk(target, "/server_info");
  const blockTokens = answer === null ? null : jsonOf(answer.text)?.tokens_per_block;
  const isLength = Number.isSafeInteger(blockTokens) && Number(blockTokens) > 0;
  return isLength ? kvOf(Number(blockTokens), 0) : null;
}

async function versionOf(target: ProbeTarget): Promise<string> {
  const answer = await tryAsk(target, "/version");
  const version = answer === null ? null : jsonOf(answer.text)?.version;
  return typeof version === "string" ? short(version) : "unknown";
}

/** vLLM tells its cache's shape as labels of a metric. */
function cacheConfigOf(metrics: string): WorkerKv | null {
  const labels = /^vllm:cache_config_info\{([^}]*)\}/m.exec(metrics)?.[1] ?? "";
  const blockTokens = Number(/\bblock_size="(\d{1,6})"/.exec(labels)?.[1]);
  const blocks = Number(/\bnum_gpu_blocks="(\d{1,12})"/.exec(labels)?.[1] ?? 0);
  return blockTokens > 0 ? kvOf(blockTokens, blocks) : null;
}

function kvOf(blockTokens: number, blocks: number): WorkerKv {
  return { blockTokens, blocks: [blocks], groupWindows: [null] };
}

function modelCards(answer: SmallAnswer): readonly ModelCard[] {
  const list = jsonOf(answer.text)?.data;
  if (!Array.isArray(list)) throw strange("no list of models at /v1/models");
  return list.slice(0, MODELS_MAX).flatMap((card: unknown) => {
    if (typeof card !== "object" || card === null) return [];
    const fields = card as JsonObject; // any JSON object
    const { id, owned_by: owner, max_model_len: length, parent } = fields;
    if (typeof id !== "string" || id === "" || id.length > NAME_LENGTH_MAX) return [];
    if (/\p{Cc}/u.test(id)) return [];
    return {
      id,
      owner: typeof owner === "string" ? owner : "",
      parent: typeof parent === "string" ? parent : null,
      contextTokensMax: Number.isSafeInteger(length) ? Number(length) : CONTEXT_UNKNOWN,
    };
  });
}

type ModelCards = readonly [ModelCard, ...ModelCard[]];

/** The main name first, which is never an adapter's. */
async function modelsOf(target: ProbeTarget): Promise<ModelCards> {
  const [first, ...others] = basesFirst(modelCards(await ask(target, "/v1/models")));
  if (first === undefined) throw strange("a list of models without a model");
  return [first, ...others];
}

function listed(cards: ModelCards): Pick<WorkerInfo, "models" | "adapters" | "contextTokensMax"> {
  const adapters = cards.filter(({ parent }) => parent !== null).map(({ id }) => id);
  return {
    models: cards.map(({ id }) => id),
    ...(adapters.length > 0 ? { adapters } : {}),
    contextTokensMax: cards[0].contextTokensMax,
  };
}

function basesFirst(cards: readonly ModelCard[]): readonly ModelCard[] {
  const isBase = ({ parent }: ModelCard) => parent === null;
  return [...cards.filter(isBase), ...cards.filter((card) => !isBase(card))];
}

async function ask(target: ProbeTarget, path: string): Promise<SmallAnswer> {
  const answer = await boundedGet(target.url + path, withSignal(target, target.workerApiKey));
  if (answer.status === 401 || answer.status === 403) {
    throw new EngineError("NETWORK", `a refused API key (status ${answer.status})`);
  }
  if (answer.status === 503) throw new EngineError("NETWORK", LOADING);
  if (answer.status !== 200) throw strange(`status ${answer.status} at ${path}`);
  return answer;
}

/** Null: not a route of this server. Throws NETWORK where it does not answer any more. */
async function tryAsk(target: ProbeTarget, path: string): Promise<SmallAnswer | null> {
  const answer = await boundedGet(target.url + path, withSignal(target, target.workerApiKey));
  return answer.status === 200 ? answer : null;
}

function withSignal({ signal, http }: ProbeTarget, token: string | null): GetOptions {
  return {
    ...(signal !== undefined && { signal }),
    ...(http !== undefined && { http }),
    token,
  };
}

function jsonOf(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as JsonObject) : null;
  } catch {
    return null; // A page of another server.
  }
}

function short(text: string): string {
  return text.replace(/\p{Cc}/gu, "").slice(0, 100) || "unknown";
}

function strange(what: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", what);
}
