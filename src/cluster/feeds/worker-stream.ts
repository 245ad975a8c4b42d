/** A worker's stream of events over HTTP, as messages. */
import { EngineError } from "#base";
import { Deadline, type WorkerAnswer } from "#cluster/http";
import type { FeedSettings } from "./feed-options.ts";
import { type SseMessage, SseMessages } from "./sse-messages.ts";

/** A connection to `GET /kv_cache_events/stream`. */
export interface WorkerStreamRequest {
  /** The worker's. */
  readonly url: string;
  readonly settings: FeedSettings;
  /** The last event that was read; null: the stream begins with a snapshot. */
  readonly afterId: string | null;
  readonly signal: AbortSignal;
}

/** Workers older than packed runs pass over that word, and send lists of ids. */
const EVENTS_PATH = "/kv_cache_events/stream?tokens=plain&runs=packed";

/**
 * The messages of one connection, as many at a time as arrive together. Throws NETWORK where the
 * worker refuses, is silent, or sends too much; other errors where it cannot be reached.
 */
export async function* workerStream(
  request: WorkerStreamRequest,
): AsyncGenerator<readonly SseMessage[]> {
  const { url, settings, afterId, signal } = request;
  const { silenceMs, messageBytesMax, http, apiKey } = settings;
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (apiKey !== null) headers.authorization = `Bearer ${apiKey}`;
  if (afterId !== null) headers["last-event-id"] = afterId;
  const silence = new Deadline(silenceMs, signal);
  try {
    const answer = await http.ask(`${url}${EVENTS_PATH}`, {
      headers,
      signal: silence.signal,
    });
    if (answer.status !== 200) throw refused(answer);
    // Headers have come: the worker is reached.
    yield [];
    const messages = new SseMessages(messageBytesMax);
    const decoder = new TextDecoder();
    for await (const piece of answer.pieces) {
      silence.refresh();
      yield messages.push(decoder.decode(piece, { stream: true }));
    }
  } catch (error) {
    if (!silence.isLate) throw error;
    throw new EngineError("NETWORK", `nothing came for ${silenceMs} ms`, { cause: error });
  } finally {
    silence.end();
  }
}

function refused({ status, drop }: WorkerAnswer): EngineError {
  drop();
  const why = status === 401 || status === 403 ? ": it refuses the secret or key" : "";
  return new EngineError("NETWORK", `it answered ${status}${why}`);
}
