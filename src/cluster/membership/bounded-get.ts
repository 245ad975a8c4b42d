/** Small answers of servers that may be anything. */
import { EngineError } from "#base";
import { Deadline, failureText, systemHttp, type WorkerHttp } from "#cluster/http";

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
  /** What asks. Default: one with the system's authorities. */
  readonly http?: WorkerHttp;
  /** Default: 2 s for all of the answer. */
  readonly timeoutMs?: number;
}

/**
 * GETs at most 1 MiB. Redirects are not followed: a token would go where it was not sent. Throws
 * NETWORK, with a reason of a few words, where there is no answer.
 */
export async function boundedGet(url: string, options: GetOptions = {}): Promise<SmallAnswer> {
  const { token = null, signal, timeoutMs = TIMEOUT_MS, http = systemHttp() } = options;
  const deadline = new Deadline(timeoutMs, signal);
  try {
    const headers = token === null ? {} : { authorization: `Bearer ${token}` };
    const answer = await http.ask(url, { headers, signal: deadline.signal });
    return { status: answer.status, text: await answer.text(BODY_BYTES_MAX) };
  } catch (error) {
    const reason = deadline.isLate ? `no answer within ${timeoutMs} ms` : failureText(error);
    throw new EngineError("NETWORK", reason.slice(0, 200), { cause: error });
  } finally {
    deadline.end();
  }
}
