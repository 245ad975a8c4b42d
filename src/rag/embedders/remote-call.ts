/** One request to a server with OpenAI's API: attempts, deadline, and an answer of bounded size. */
import { setTimeout as wait } from "node:timers/promises";
import { EngineError, type ErrorCode, messageOf } from "#base";

/** A POST of JSON. */
export interface RemoteCall {
  readonly url: string;
  readonly apiKey: string | null;
  readonly body: object;
  readonly answerBytesMax: number;
  readonly deadlineMs: number;
  readonly attemptsMax: number;
  readonly retryMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Longest wait before an attempt, whatever the server asks for. */
const WAIT_MS_MAX = 30_000;

/** Characters of a server's own words in an error. */
const WORDS_MAX = 300;
/** Bytes of a refusal that are read. */
const REFUSAL_BYTES_MAX = 64 * 2 ** 10;

const BUSY: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** A refusal that another attempt may not meet. */
class BusyError extends Error {
  /** What the server asks to wait; null: it does not say. */
  readonly waitMs: number | null;

  constructor(message: string, waitMs: number | null, cause?: unknown) {
    super(message, { cause });
    this.waitMs = waitMs;
  }
}

/**
 * The answer's JSON. Waits and tries again where the server is busy or broken. Rejects with
 * NETWORK, UNAUTHORIZED, MODEL_NOT_FOUND and INVALID_ARGUMENT, and with the signal's reason.
 */
export async function callRemote(call: RemoteCall): Promise<unknown> {
  const { deadlineMs, attemptsMax, retryMs, signal } = call;
  const endMs = performance.now() + deadlineMs;
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted();
    const leftMs = endMs - performance.now();
    try {
      return await attemptOnce(call, leftMs);
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof BusyError)) throw error;
      const pauseMs = Math.min(error.waitMs ?? retryMs * 2 ** (attempt - 1), WAIT_MS_MAX);
      const isLast = attempt >= attemptsMax || performance.now() + pauseMs >= endMs;
      if (isLast) throw unreached(call, `${error.message}, after ${attempt} attempts`, error);
      await pause(pauseMs, signal);
    }
  }
}

/** Rejects with the signal's reason. */
async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await wait(ms, undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

async function attemptOnce(call: RemoteCall, leftMs: number): Promise<unknown> {
  const deadline = AbortSignal.timeout(Math.max(1, Math.ceil(leftMs)));
  const signal = call.signal ? AbortSignal.any([call.signal, deadline]) : deadline;
  try {
    const response = await fetch(call.url, {
      method: "POST",
      headers: headersOf(call),
      body: JSON.stringify(call.body),
      // A key must not go where a server sends it.
      redirect: "error",
      signal,
    });
    if (!response.ok) throw await refusal(call, response);
    return parsed(call, await textOf(response, call.answerBytesMax));
  } catch (error) {
    if (error instanceof EngineError || error instanceof BusyError) throw error;
    if (deadline.aborted) throw unreached(call, `no answer within ${call.deadlineMs} ms`, error);
    throw new BusyError(causeOf(error), null, error);
  }
}

function headersOf({ apiKey }: RemoteCall): Record<string, string> {
  const json = { "content-type": "application/json", accept: "application/json" };
  return apiKey === null ? json : { ...json, authorization: `Bearer ${apiKey}` };
}

/** `fetch` hides what failed behind one sentence. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  return messageOf(cause);
}

async function refusal(call: RemoteCall, response: Response): Promise<Error> {
  const { status } = response;
  const words = await wordsOf(response);
  const told = `it answered ${status}${words === "" ? "" : `: ${words}`}`;
  if (BUSY.has(status)) return new BusyError(told, waitOf(response.headers.get("retry-after")));
  const [code, remedy] = REFUSALS[status] ?? (["NETWORK", "check the address"] as const);
  return new EngineError(code, `Cannot embed at ${call.url}: ${told}; ${remedy}`);
}

const REFUSALS: Readonly<Record<number, readonly [ErrorCode, string]>> = {
  400: ["INVALID_ARGUMENT", "check the model's name and the longest text that it takes"],
  401: ["UNAUTHORIZED", "check the API key"],
  403: ["UNAUTHORIZED", "check what the API key may do"],
  404: ["MODEL_NOT_FOUND", "check the address, which ends in /v1, and the model's name"],
  413: ["INVALID_ARGUMENT", "make batches smaller"],
  422: ["INVALID_ARGUMENT", "check the model's name and the longest text that it takes"],
};

/** Seconds, or a date. Null: there is none. */
function waitOf(header: string | null): number | null {
  if (header === null) return null;
  const seconds = Number(header);
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : null;
}

/** What a server says is wrong, in few words and on one line. */
async function wordsOf(response: Response): Promise<string> {
  try {
    const text = await textOf(response, REFUSAL_BYTES_MAX);
    return (messageIn(text) ?? text).replace(/\s+/g, " ").trim().slice(0, WORDS_MAX);
  } catch {
    return ""; // The status says enough.
  }
}

function messageIn(text: string): string | null {
  try {
    const value: unknown = JSON.parse(text);
    const error = field(value, "error");
    const message = field(error, "message") ?? field(value, "message") ?? field(value, "detail");
    return typeof message === "string" ? message : typeof error === "string" ? error : null;
  } catch {
    return null;
  }
}

/** A field of an object; undefined: there is none. */
export function field(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return Reflect.get(value, name);
}

/** The body, at most so many bytes. */
async function textOf(response: Response, bytesMax: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > bytesMax) {
      throw new EngineError(
        "NETWORK",
        `Cannot read the answer of ${response.url}: it must have at most ${bytesMax} bytes, ` +
          "current value is more; check that the address is an embedding server's",
      );
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parsed(call: RemoteCall, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw unreached(call, "its answer is no JSON", cause);
  }
}

function unreached({ url }: RemoteCall, why: string, cause: unknown): EngineError {
  return new EngineError(
    "NETWORK",
    `Cannot embed at ${url}: ${why}; check the address, and that the server is up`,
    { cause },
  );
}
