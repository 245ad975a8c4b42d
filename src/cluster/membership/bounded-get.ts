/** Small answers of servers that may be anything. */
import { EngineError, messageOf } from "#base";

const BODY_BYTES_MAX = 1 << 20;
const TIMEOUT_MS = 2000;

/** An answer, whatever its status. */
export interface SmallAnswer {
  readonly status: number;
  readonly text: string;
}

/** How a worker is asked. */
export interface GetOptions {
  /** Sent as bearer token. */
  readonly token?: string | null;
  readonly signal?: AbortSignal;
  /** What asks. Default: the system's fetch, with the system's authorities. */
  readonly fetch?: typeof fetch;
  /** Default: 2 s for all of the answer. */
  readonly timeoutMs?: number;
}

/**
 * GETs at most 1 MiB. Redirects are not followed: a token would go where it was not sent. Throws
 * NETWORK, with a reason of a few words, where there is no answer.
 */
export async function boundedGet(url: string, options: GetOptions = {}): Promise<SmallAnswer> {
  const { token = null, signal, timeoutMs = TIMEOUT_MS } = options;
  const ask = options.fetch ?? fetch;
  // No AbortSignal.any: Node 20 may collect such a signal while it is awaited.
  const stop = new AbortController();
  const stopNow = () => stop.abort();
  signal?.addEventListener("abort", stopNow, { once: true });
  if (signal?.aborted === true) stopNow();
  let isLate = false;
  const timeout = setTimeout(() => {
    isLate = true;
    stopNow();
  }, timeoutMs);
  timeout.unref();
  try {
    const answer = await ask(url, {
      redirect: "manual",
      headers: token === null ? {} : { authorization: `Bearer ${token}` },
      signal: stop.signal,
    });
    return { status: answer.status, text: await boundedText(answer) };
  } catch (error) {
    const reason = isLate ? `no answer within ${timeoutMs} ms` : reasonOf(error);
    throw new EngineError("NETWORK", reason, { cause: error });
  } finally {
    clearTimeout(timeout);
    signal?.removeEventListener("abort", stopNow);
  }
}

async function boundedText({ body }: Response): Promise<string> {
  if (body === null) return "";
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of body) {
    length += piece.byteLength;
    if (length > BODY_BYTES_MAX) throw new Error(`an answer of more than ${BODY_BYTES_MAX} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}

/** The cause of fetch's "fetch failed", whose own text says nothing. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const hasCode = cause instanceof Error && "code" in cause && typeof cause.code === "string";
  return (hasCode ? String(cause.code) : messageOf(cause)).slice(0, 200);
}
