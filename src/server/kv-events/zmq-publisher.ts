import { encode } from "@msgpack/msgpack";
import type { Publisher, Router } from "zeromq";
import { EngineError, messageOf } from "#base";
import type { VllmEvent } from "#kvcache";
import { checkEndpoint, listensAt } from "./zmq-endpoint.ts";
import { answerReplays, ReplayBuffer, sequenceFrame } from "./zmq-replay.ts";

/** vLLM's defaults: batches queued for one slow subscriber, and batches kept for replays. */
const WAITING_BATCHES_MAX = 100_000;
const REPLAY_BATCHES = 10_000;
/** Time to send the last batches when the publisher is closed. */
const LINGER_MS = 500;
const RANK = 0;

/** Addresses and format of published events. */
export interface ZmqPublisherOptions {
  /** `tcp://*:5557` to listen, `tcp://host:5557` to connect to a router that listens. */
  readonly endpoint: string;
  /** Address for replay requests of subscribers; always listens; null: no replays. */
  readonly replayEndpoint: string | null;
  /** The first frame of each message; subscribers filter by its prefix. */
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
 * is 100,000 batches behind misses further ones, detects the gap in the numbers, and can request a
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
    // `close` reports the error; until then a broken socket only leaves replays unanswered.
    this.#replaying.catch(() => {});
  }

  /**
   * Opens the sockets.
   *
   * @throws EngineError INVALID_ARGUMENT for an invalid address or without the package `zeromq`, IO
   *   if the address is in use
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
    // Unbounded: a router socket silently drops messages above a client's limit.
    const router =
      replayEndpoint === null ? null : new Router({ sendHighWaterMark: 0, linger: LINGER_MS });
    try {
      if (listensAt(endpoint)) await listen(publisher, endpoint, "kvEventsZmq");
      else connect(publisher, endpoint, "kvEventsZmq");
      // Subscribers connect to the replay socket, so it listens at any form of address.
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

  /** The publishing address: with the actual port for `*`; unchanged if the publisher connects. */
  get endpoint(): string {
    return this.#sockets.publisher.lastEndpoint ?? this.#options.endpoint;
  }

  /** The address for replay requests; null: none. */
  get replayEndpoint(): string | null {
    return this.#sockets.router?.lastEndpoint ?? this.#options.replayEndpoint;
  }

  /** Address and mode for the log, e.g. `listening at tcp://0.0.0.0:5557`. */
  get description(): string {
    const { endpoint, replayEndpoint } = this.#options;
    const way = listensAt(endpoint) ? "listening at" : "connecting to";
    const replay = replayEndpoint === null ? "" : `, replays: listening at ${this.replayEndpoint}`;
    return `${way} ${this.endpoint}${replay}`;
  }

  get topic(): string {
    return this.#options.topic;
  }

  /** Sends one batch; without events, sends nothing. Await it before the next call. */
  async publish(events: readonly VllmEvent[]): Promise<void> {
    if (events.length === 0) return;
    const batch = [this.#options.nowSeconds(), events, RANK];
    const payload = encode(batch, { useBigInt64: true });
    const sequence = this.#nextSequence++;
    this.#buffer.add(sequence, payload);
    await this.#sockets.publisher.send([this.#options.topic, sequenceFrame(sequence), payload]);
  }

  /** Closes the sockets; queued batches are still sent. Do not call it during `publish`. */
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
