/** A worker's stream of events over HTTP, as messages. */
import { EngineError } from "#base";
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

/**
 * The messages of one connection, as many at a time as arrive together. Throws NETWORK where the
 * worker refuses, is silent, or sends too much; other errors where it cannot be reached.
 */
export async function* workerStream(
  request: WorkerStreamRequest,
): AsyncGenerator<readonly SseMessage[]> {
  const { silenceMs, messageBytesMax } = request.settings;
  // No AbortSignal.any: Node 20 may collect such a signal while it is awaited.
  const stop = new AbortController();
  const stopNow = () => stop.abort();
  request.signal.addEventListener("abort", stopNow, { once: true });
  if (request.signal.aborted) stopNow();
  let isSilent = false;
  const timeout = setTimeout(() => {
    isSilent = true;
    stopNow();
  }, silenceMs);
  timeout.unref();
  try {
    const body = await connect(request, stop.signal);
    // Headers have come: the worker is reached.
    yield [];
    const messages = new SseMessages(messageBytesMax);
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await body.read();
      if (done) return;
      timeout.refresh();
      yield messages.push(decoder.decode(value, { stream: true }));
    }
  } catch (error) {
    if (!isSilent) throw error;
    throw new EngineError("NETWORK", `nothing came for ${silenceMs} ms`, { cause: error });
  } finally {
    clearTimeout(timeout);
    request.signal.removeEventListener("abort", stopNow);
    stopNow();
  }
}

async function connect(
  { url, settings, afterId }: WorkerStreamRequest,
  signal: AbortSignal,
): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (settings.apiKey !== null) headers.authorization = `Bearer ${settings.apiKey}`;
  if (afterId !== null) headers["last-event-id"] = afterId;
  const response = await settings.fetch(`${url}/kv_cache_events/stream?tokens=plain`, {
    headers,
    signal,
    redirect: "error",
  });
  // Read by hand: leaving a loop over the body would wait for the worker to end it.
  if (response.status === 200 && response.body !== null) return response.body.getReader();
  await response.body?.cancel();
  const { status } = response;
  const why = status === 401 || status === 403 ? ": it refuses the secret or key" : "";
  throw new EngineError("NETWORK", `it answered ${status}${why}`);
}
