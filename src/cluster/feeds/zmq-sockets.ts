/** The subscriber's sockets, and requests for replays. */
import type { Dealer, Subscriber } from "zeromq";
import { EngineError } from "#base";
import { type Batch, replayedBatch, replayRequest } from "./batch-frames.ts";

/**
 * Batches that wait for this reader; above it the publisher keeps them, vLLM's up to 100,000. The
 * library's 1,000 on both sides lose every seventh under load.
 */
const WAITING_BATCHES_MAX = 10_000;
/** A dead peer is noticed after three of these. */
const HEARTBEAT_MS = 5000;
/** Longest wait for a message before the feed looks after its connection. */
const RECEIVE_MS = 250;
/** Longest wait for the next batch of a replay: publishers look for requests each 100 ms. */
const REPLAY_MS = 3000;

/** Settings of a connection. */
export interface ZmqTarget {
  readonly endpoint: string;
  readonly replayEndpoint: string | null;
  readonly topic: string;
  readonly messageBytesMax: number;
  readonly retryMs: readonly [shortest: number, longest: number];
}

/** The package is optional. Throws INVALID_ARGUMENT where it is missing. */
export async function loadZeromq(): Promise<typeof import("zeromq")> {
  try {
    return await import("zeromq");
  } catch (cause) {
    const message =
      "Cannot follow KV events: the package zeromq must be installed, it cannot be loaded; " +
      "run `npm install zeromq`";
    throw new EngineError("INVALID_ARGUMENT", message, { cause });
  }
}

/**
 * A connected subscriber. It reconnects by itself; `watch` may listen to its events before the
 * first of them.
 */
export async function subscribe(
  target: ZmqTarget,
  watch: (socket: Subscriber) => void,
): Promise<Subscriber> {
  const { Subscriber: Socket } = await loadZeromq();
  const [shortestMs, longestMs] = target.retryMs;
  const socket = new Socket({
    receiveHighWaterMark: WAITING_BATCHES_MAX,
    receiveTimeout: RECEIVE_MS,
    maxMessageSize: target.messageBytesMax,
    reconnectInterval: shortestMs,
    reconnectMaxInterval: longestMs,
    heartbeatInterval: HEARTBEAT_MS,
    heartbeatTimeout: HEARTBEAT_MS * 3,
    linger: 0,
  });
  try {
    watch(socket);
    socket.connect(target.endpoint);
    socket.subscribe(target.topic);
  } catch (error) {
    socket.close();
    throw error;
  }
  return socket;
}

/**
 * The batches that a publisher keeps, from `from` on, as they come; ends where they end. Throws
 * NETWORK where the publisher does not answer. `signal` ends it early.
 */
export async function* replay(
  target: ZmqTarget & { readonly replayEndpoint: string },
  from: bigint,
  signal: AbortSignal,
): AsyncGenerator<Batch> {
  const { Dealer: Socket } = await loadZeromq();
  const socket: Dealer = new Socket({
    receiveTimeout: REPLAY_MS,
    sendTimeout: REPLAY_MS,
    maxMessageSize: target.messageBytesMax,
    // Unbounded on the publisher's side, so that a bound here only delays.
    receiveHighWaterMark: WAITING_BATCHES_MAX,
    linger: 0,
  });
  const close = () => socket.close();
  signal.addEventListener("abort", close, { once: true });
  try {
    socket.connect(target.replayEndpoint);
    await socket.send(replayRequest(from));
    for (;;) {
      const batch = replayedBatch(await socket.receive());
      if (batch === "end") return;
      if (batch !== null) yield batch;
    }
  } catch (cause) {
    const { replayEndpoint } = target;
    throw new EngineError("NETWORK", `no answer from ${replayEndpoint}`, { cause });
  } finally {
    signal.removeEventListener("abort", close);
    socket.close();
  }
}
