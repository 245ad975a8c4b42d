import { Agent, request } from "undici";
import { EngineError, messageOf } from "#base";
import { safeConnector } from "./deferred-ends.ts";
import { type AnswerListener, type Listening, ListeningCall } from "./worker-listening.ts";

/** Longest time to make a connection, in milliseconds. */
const CONNECT_MS = 10_000;

/** A request to a worker. Redirects are not followed: a token would go where it was not sent. */
export interface WorkerQuestion {
  readonly method?: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Ends the request in each of its states. */
  readonly signal: AbortSignal;
}

/** An answer whose headers have come. */
export interface WorkerAnswer {
  readonly status: number;
  /** As it comes; leaving the loop closes the connection. */
  readonly pieces: AsyncIterable<Uint8Array>;
  /** All of the body. Throws NETWORK where it has more than `bytesMax`. */
  text(bytesMax: number): Promise<string>;
  /** Closes the connection: the body is not wanted. */
  drop(): void;
}

/**
 * Connections for questions to workers, kept alive. undici's own requests instead of `fetch`: under
 * Node 20 an aborted signal does not reach the body of an answer whose `Response` was collected, so
 * that a feed of a stopped worker could not be closed; and a question costs a quarter of the time.
 */
export class WorkerHttp {
  readonly #agent: Agent;

  /** `ca`: certificates of authorities for https workers, in PEM; null: the system's. */
  constructor(ca: string | null = null) {
    this.#agent = new Agent({
      connect: safeConnector({ connectTimeoutMs: CONNECT_MS, ca }),
      // The callers have deadlines of their own.
      ...{ headersTimeout: 0, bodyTimeout: 0 },
    });
  }

  /** Rejects where there is no answer: with the signal's reason, or with the connection's error. */
  async ask(url: string, question: WorkerQuestion): Promise<WorkerAnswer> {
    const { method = "GET", headers, body: sent = null, signal } = question;
    const asked = request(url, { method, headers, body: sent, signal, dispatcher: this.#agent });
    const { statusCode, body } = await untilAborted(asked, signal);
    return {
      status: statusCode,
      pieces: body,
      text: (bytesMax) => textOf(body, bytesMax),
      drop: () => body.on("error", () => {}).destroy(),
    };
  }

  /** GETs, and tells of the answer as it comes: for answers that go on. */
  listen(
    url: string,
    headers: Readonly<Record<string, string>>,
    listener: AnswerListener,
  ): Listening {
    const { origin, pathname, search } = new URL(url);
    const call = new ListeningCall(listener);
    this.#agent.dispatch({ origin, path: pathname + search, method: "GET", headers }, call);
    return call;
  }

  /** Ends all connections; requests in work fail. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/** One for all that need no authorities of their own; it lives as long as the process. */
export function systemHttp(): WorkerHttp {
  shared ??= new WorkerHttp();
  return shared;
}

let shared: WorkerHttp | null = null;

/** undici tells a request that waits for its connection of an abort when the connection is made. */
function untilAborted<T>(asked: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    asked.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

async function textOf(body: AsyncIterable<Uint8Array>, bytesMax: number): Promise<string> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of body) {
    length += piece.byteLength;
    if (length > bytesMax) {
      throw new EngineError("NETWORK", `an answer of more than ${bytesMax} bytes`);
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}

const CODE_TEXTS: ReadonlyMap<string, string> = new Map([
  ["ECONNREFUSED", "a refused connection"],
  ["ECONNRESET", "a connection that was reset"],
  ["ENOTFOUND", "a name that is not known"],
  ["EAI_AGAIN", "a name that cannot be looked up now"],
  ["EHOSTUNREACH", "no route to it"],
  ["ENETUNREACH", "no route to it"],
  ["UND_ERR_SOCKET", "a connection that it closed"],
  ["UND_ERR_CONNECT_TIMEOUT", "no connection in time"],
]);

/** A failure of the connection in a few words for logs, with its code. */
export function failureText(error: unknown): string {
  const text = messageOf(error);
  if (!(error instanceof Error && "code" in error) || error instanceof EngineError) return text;
  const code = String(error.code);
  const known = CODE_TEXTS.get(code);
  if (known !== undefined) return `${known} (${code})`;
  return text.includes(code) ? text : `${code}: ${text}`;
}
