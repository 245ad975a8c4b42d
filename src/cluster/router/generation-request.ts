/** A client's request as the router reads it: only what routing and relaying need. */
import type { IncomingHttpHeaders } from "node:http";
import { EngineError, isPlainObject } from "#base";
import type { RequestDeadlines } from "#cluster/routing";
import {
  ANTHROPIC,
  type Dialect,
  OLLAMA,
  OPENAI,
  RESPONSES,
  requestIdPattern,
  searchesFiles,
} from "#server";
import { forWorkers, readDeadlines } from "./request-deadlines.ts";

/** Which fields hold the prompt. */
export type RequestKind =
  | "chat"
  | "completions"
  | "responses"
  | "messages"
  | "ollama"
  | "embeddings"
  | "other";

export interface GenerationRequest {
  readonly path: string;
  readonly kind: RequestKind;
  /** The body's JSON as it came. */
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** Of the answer, sent again to each worker. */
  readonly id: string;
  readonly model: string | null;
  readonly stream: boolean;
  /** Prompts × n. */
  readonly choiceCount: number;
  readonly promptCount: number;
  readonly wantsUsage: boolean;
  /** The client speaks to the worker's private field itself: the body is left as it is. */
  readonly isPrivate: boolean;
  readonly salt: string | null;
  readonly session: string | null;
  readonly priority: number;
  /** It fills what is free: its priority is the word `batch`. */
  readonly isBatch: boolean;
  /** Absent: the fleet's; null: none. */
  readonly deadlines: RequestDeadlines;
  /** Expected output tokens; null: unknown. */
  readonly outputTokens: number | null;
  /** Headers for workers. */
  readonly headers: Readonly<Record<string, string>>;
}

const KINDS: Readonly<Record<string, RequestKind>> = {
  "/v1/chat/completions": "chat",
  "/v1/completions": "completions",
  "/v1/messages": "messages",
  "/v1/responses": "responses",
  "/v1/embeddings": "embeddings",
  "/api/chat": "ollama",
  "/api/generate": "ollama",
  "/api/embed": "embeddings",
  "/api/embeddings": "embeddings",
};

/** Workers read the private object `perigee` in their bodies. */
const STEERED: ReadonlySet<RequestKind> = new Set<RequestKind>([
  "chat",
  "completions",
  "responses",
]);

const GENERATING: ReadonlySet<RequestKind> = new Set<RequestKind>([
  ...STEERED,
  ...(["messages", "ollama"] as const),
]);

/** Headers of clients that workers get; others could steer a worker past its router. */
const PASSED_HEADERS = ["accept", "traceparent", "tracestate", "user-agent"] as const;

const HEADER_LENGTH_MAX = 1024;

/** Fields that routers alone say, and why. */
const OWN_FIELDS = {
  kv_source: "the router chooses where keys and values come from",
  role_epoch: "the router says by which role of a worker it chose",
} as const;

export interface RequestParts {
  readonly path: string;
  readonly text: string;
  readonly body: unknown;
  readonly headers: IncomingHttpHeaders;
  /** Of the HTTP request. */
  readonly id: string;
  readonly sessionHeader: string;
}

/** Throws INVALID_ARGUMENT for a body that is no object; a worker says what else is wrong. */
export function readRequest(parts: RequestParts): GenerationRequest {
  const { path, headers } = parts;
  if (!isPlainObject(parts.body)) {
    throw new EngineError("INVALID_ARGUMENT", "Cannot use body: must be a JSON object", {
      param: "body",
    });
  }
  const deadlines = readDeadlines(parts.body.deadlines);
  const isBatch = parts.body.priority === "batch";
  const { text, body } = forWorkers(parts.text, parts.body);
  refuseOwnFields(body.perigee);
  const kind = KINDS[path] ?? "other";
  const isSearching = kind === "chat" || kind === "responses";
  if (isSearching && body.tool_choice !== "none" && searchesFiles(body)) throw ofOneServer();
  const isAlone = kind === "messages" || kind === "ollama";
  const promptCount = isSearching || isAlone ? 1 : promptsIn(body.prompt ?? body.input);
  const id = idOf(body.request_id) ?? parts.id;
  return {
    ...{ path, kind, text, body, id, promptCount },
    model: modelIn(path, body),
    stream: wantsStream(kind, body) && isGenerating(kind),
    choiceCount: promptCount * (isAlone ? 1 : countOf(body.n)),
    wantsUsage: isPlainObject(body.stream_options) && body.stream_options.include_usage === true,
    isPrivate: Object.hasOwn(body, "perigee"),
    salt: typeof body.cache_salt === "string" ? body.cache_salt : null,
    session: sessionOf(headers[parts.sessionHeader], userOf(kind, body)),
    ...{ isBatch, deadlines },
    priority: Number.isSafeInteger(body.priority) ? Number(body.priority) : 0,
    outputTokens: lengthIn(body),
    headers: workerHeaders(headers, id),
  };
}

/** In which the router itself says what fails; workers' answers are relayed as they are. */
export function dialectOf(path: string): Dialect {
  if (path.startsWith("/v1/messages")) return ANTHROPIC;
  if (path.startsWith("/v1/responses")) return RESPONSES;
  return path.startsWith("/api/") ? OLLAMA : OPENAI;
}

/** Whether tokens are generated, which a stream may tell one by one. */
export function isGenerating(kind: RequestKind): boolean {
  return GENERATING.has(kind);
}

/** Whether workers read the private object `perigee` in a body of this kind. */
export function isSteered(kind: RequestKind): boolean {
  return STEERED.has(kind);
}

/** Null: it names none, or what is no name. */
function modelIn(path: string, { model, name }: GenerationRequest["body"]): string | null {
  const own = path === "/api/show" ? (model ?? name) : model;
  return typeof own === "string" ? own : null;
}

/** Ollama's answers are streams unless they shall be none. */
function wantsStream(kind: RequestKind, { stream }: GenerationRequest["body"]): boolean {
  return kind === "ollama" ? stream !== false : stream === true;
}

/** Anthropic's clients name user and session in one field. */
function userOf(kind: RequestKind, { user, metadata }: GenerationRequest["body"]): unknown {
  if (kind !== "messages") return user;
  return isPlainObject(metadata) ? metadata.user_id : null;
}

/** Vector stores are one server's: another worker has others under other ids. */
function ofOneServer(): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    "Cannot use tools: file_search answers from vector stores of one server, this is a router; " +
      "ask that server itself",
    { param: "tools" },
  );
}

function refuseOwnFields(perigee: unknown): void {
  if (!isPlainObject(perigee)) return;
  for (const [name, why] of Object.entries(OWN_FIELDS)) {
    if (!Object.hasOwn(perigee, name)) continue;
    const param = `perigee.${name}`;
    const message = `Cannot use ${param}: must be left out, ${why}`;
    throw new EngineError("INVALID_ARGUMENT", message, { param });
  }
}

function workerHeaders(headers: IncomingHttpHeaders, id: string): Record<string, string> {
  const passed: Record<string, string> = { "content-type": "application/json", "x-request-id": id };
  for (const name of PASSED_HEADERS) {
    const value = headers[name];
    if (typeof value === "string" && value.length <= HEADER_LENGTH_MAX) passed[name] = value;
  }
  return passed;
}

function idOf(value: unknown): string | null {
  return typeof value === "string" && requestIdPattern.test(value) ? value : null;
}

function sessionOf(header: string | string[] | undefined, user: unknown): string | null {
  if (typeof header === "string" && header !== "") return header.slice(0, HEADER_LENGTH_MAX);
  return typeof user === "string" && user !== "" ? user.slice(0, HEADER_LENGTH_MAX) : null;
}

function lengthIn(body: GenerationRequest["body"]): number | null {
  const { max_completion_tokens: chat, max_output_tokens: response, max_tokens: older } = body;
  const ollama = isPlainObject(body.options) ? body.options.num_predict : null;
  return lengthOf(chat) ?? lengthOf(response) ?? lengthOf(older) ?? lengthOf(ollama);
}

function lengthOf(value: unknown): number | null {
  return typeof value === "number" && value > 0 ? value : null;
}

/** What is no count is refused by the worker. */
function countOf(value: unknown): number {
  const isCount = typeof value === "number" && Number.isInteger(value) && value >= 1;
  return isCount ? Math.min(value, CHOICES_MAX) : 1;
}

const CHOICES_MAX = 1024;

function promptsIn(value: unknown): number {
  if (!Array.isArray(value) || typeof value[0] === "number") return 1;
  return Math.max(1, value.length);
}
