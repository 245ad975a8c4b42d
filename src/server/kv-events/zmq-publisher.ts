import { encode } from "@msgpack/msgpack";
import type { Publisher, Router } from "zeromq";
import { EngineError, messageOf } from "#base";
import type { VllmEvent } from "#kvcache";
import { checkEndpoint, listensAt } from "./zmq-endpoint.ts";
import { answerReplays, ReplayBuffer, sequenceFrame } from "./zmq-replay.ts";

/** vLLM's defaults: batches that wait for one slow subscriber, and that are kept for replays. */
const WAITING_BATCHES_MAX = 100_000;
const REPLAY_BATCHES = 10_000;
/** Time that the last batches get to leave when the publisher is closed. */
const LINGER_MS = 500;
const RANK = 0;

/** Where to publish, and what. */
export interface ZmqPublisherOptions {
  /** `tcp://*:5557` to listen, `tcp://host:5557` to connect to a router that does. */
  readonly endpoint: string;
  /** Where subscribers ask for batches that they missed; listened at always; null: nowhere. */
  readonly replayEndpoint: string | null;
  /** The first frame of each message; subscribers choose by its beginning. */
  readonly topic: string;
  /** Batches kept for replays. Default: 10,000. */
  readonly replayBatches?: number;
  /** Unix time in seconds, with a fraction. */
  readonly nowSeconds: () => number;
}

interface Sockets {
  readonly publisher: Publisher;
  readonly router: Router | null;
}

/**
 * Publishes events as vLLM's workers do (V 2.1): frames topic, sequence number (8 bytes,
 * big-endian, from 0) and payload, which is msgpack of [seconds, events, rank]. A subscriber that
 * is 100,000 batches behind misses further ones, sees the gap in the numbers, and asks for a
 * replay.
 */
export class ZmqKvPublisher {
  readonly #sockets: Sockets;
  readonly #options: ZmqPublisherOptions;
  readonly #buffer: ReplayBuffer;
  readonly #replaying: Promise<void>;
  #nextSequence = 0n;

  private constructor(sockets: Sockets, options: ZmqPublisherOptions) {
    this.#sockets = sockets;
    this.#options = options;
    this.#buffer = new ReplayBuffer(options.replayBatches ?? REPLAY_BATCHES);
    const { router } = sockets;
    this.#replaying =
      router === null ? Promise.resolve() : answerReplays(router, this.#buffer, options.topic);
    // Whoever closes hears of it; until then a broken socket only answers nobody.
    this.#replaying.catch(() => {});
  }

  /**
   * Opens the sockets.
   *
   * @throws EngineError INVALID_ARGUMENT for a wrong address or without the package `zeromq`, IO
   *   where the address is in use
   */
  static async start(options: ZmqPublisherOptions): Promise<ZmqKvPublisher> {
    const { endpoint, replayEndpoint } = options;
    checkEndpoint(endpoint, "kvEventsZmq");
    if (replayEndpoint !== null) checkEndpoint(replayEndpoint, "kvEventsZmqReplay");
    const { Publisher, Router } = await loadZeromq();
    const publisher = new Publisher({
      sendHighWaterMark: WAITING_BATCHES_MAX,
      linger: LINGER_MS,
    });
    // Unbounded, since a router socket drops what a client has no room for, without a word.
    const router =
      replayEndpoint === null ? null : new Router({ sendHighWaterMark: 0, linger: LINGER_MS });
    try {
      if (listensAt(endpoint)) await listen(publisher, endpoint, "kvEventsZmq");
      else connect(publisher, endpoint, "kvEventsZmq");
      // Whoever asks comes by itself, so this one listens whatever its address looks like.
      if (router !== null && replayEndpoint !== null) {
        await listen(router, replayEndpoint, "kvEventsZmqReplay");
      }
    } catch (error) {
      publisher.close();
      router?.close();
      throw error;
    }
    return new ZmqKvPublisher({ publisher, router }, options);
  }

  /** Where it publishes, with the port that `*` became; an address to connect to is as given. */
  get endpoint(): string {
    return this.#sockets.publisher.lastEndpoint ?? this.#options.endpoint;
  }

  /** Where it answers replays; null: nowhere. */
  get replayEndpoint(): string | null {
    return this.#sockets.router?.lastEndpoint ?? this.#options.replayEndpoint;
  }

  /** Where it goes or listens, for the log, e.g. `listening at tcp://0.0.0.0:5557`. */
  get description(): string {
    const { endpoint, replayEndpoint } = this.#options;
    const way = listensAt(endpoint) ? "listening at" : "connecting to";
    const replay = replayEndpoint === null ? "" : `, replays: listening at ${this.replayEndpoint}`;
    return `${way} ${this.endpoint}${replay}`;
  }

  get topic(): string {
    return this.#options.topic;
  }

  /** Sends one batch; nothing where there are no events. Wait for it before the next one. */
  async publish(events: readonly VllmEvent[]): Promise<void> {
    if (events.length === 0) return;
    const batch = [this.#options.nowSeconds(), events, RANK];
    const payload = encode(batch, { useBigInt64: true });
    const sequence = this.#nextSequence++;
    this.#buffer.add(sequence, payload);
    await this.#sockets.publisher.send([this.#options.topic, sequenceFrame(sequence), payload]);
  }

  /** Closes the sockets; batches under way still leave. Not while a batch is being sent. */
  async close(): Promise<void> {
    this.#sockets.publisher.close();
    this.#sockets.router?.close();
    await this.#replaying;
  }
}

/** The package is optional: its binaries are ten times as large as the rest of the server. */
async function loadZeromq(): Promise<typeof import("zeromq")> {
  try {
    return await import("zeromq");
  } catch (cause) {
    const message =
      "Cannot publish KV events: the package zeromq must be installed, it cannot be loaded; " +
      "run `npm install zeromq`";
    throw new EngineError("INVALID_ARGUMENT", message, { cause, param: "kvEventsZmq" });
  }
}

async function listen(socket: Publisher | Router, endpoint: string, param: string): Promise<void> {
  try {
    await socket.bind(endpoint);
  } catch (cause) {
    const message =
      `Cannot publish KV events: ${param} must be an address of this machine that is free to ` +
      `listen at, current value is ${endpoint}: ${messageOf(cause)}; choose another`;
    throw new EngineError("IO", message, { cause, param });
  }
}

function connect(socket: Publisher, endpoint: string, param: string): void {
  try {
    socket.connect(endpoint);
  } catch (cause) {
    const message =
      `Cannot publish KV events: ${param} must be an address to connect to, ` +
      `current value is ${endpoint}: ${messageOf(cause)}; choose another`;
    throw new EngineError("IO", message, { cause, param });
  }
}
