/** Follows a publisher of vLLM's kind: batches with numbers over ZeroMQ, replays of lost ones. */
import { setImmediate as turn } from "node:timers/promises";
import type { Subscriber } from "zeromq";
import { messageOf } from "#base";
import type { KvFeed, KvFeedSink, WorkerInfo } from "#cluster/protocol";
import { BackOff, pause } from "./back-off.ts";
import { type Batch, publishedBatch } from "./batch-frames.ts";
import { BatchOrder } from "./batch-order.ts";
import { readEngineBatch } from "./engine-events.ts";
import { type FeedOptions, type FeedSettings, feedSettings } from "./feed-options.ts";
import { PacedWarnings } from "./paced-warnings.ts";
import { type WorkerScope, workerScope } from "./worker-scope.ts";
import { replay, subscribe, type ZmqTarget } from "./zmq-sockets.ts";

/** Batches after which timers and other connections get their turn. */
const BATCHES_PER_TURN = 64;
/** Requests for a replay without an answer, until what is missing is given up. */
const REPLAY_TRIES = 3;
/** Largest frame of a batch; a step of an engine announces some hundred kilobytes. */
const FRAME_BYTES_MAX = 2 ** 24;

/**
 * One data-parallel rank's batches, in their order. A gap is repaired by a replay; where it is not,
 * the contents are unknown (these engines have no snapshot): the sink is reset, and what comes
 * afterwards is all that is known.
 */
export class ZmqFeed implements KvFeed {
  readonly #target: ZmqTarget;
  readonly #scope: WorkerScope;
  readonly #settings: FeedSettings;
  readonly #order = new BatchOrder();
  readonly #ended = new AbortController();
  readonly #replays: BackOff;
  #running: Promise<void> = Promise.resolve();
  #replayAfterMs = 0;
  /** Requests in a row that had no answer. */
  #failures = 0;
  /** Batches known to be missing. */
  #missing = 0n;
  /** The connection was made anew: batches may be lost that no later one tells of. */
  #isReconnected = false;
  /** The last batch that was applied: the same number of another start differs. */
  #last: Batch | null = null;

  constructor(worker: WorkerInfo, target: ZmqTarget, options: FeedOptions = {}) {
    this.#target = target;
    this.#scope = workerScope(worker);
    this.#settings = feedSettings(options);
    this.#replays = new BackOff(this.#settings.retryMs);
  }

  /** Batches that are missing while a replay repairs a gap; null before the first. */
  get lag(): number | null {
    return this.#order.isFollowing || this.#missing > 0n ? Number(this.#missing) : null;
  }

  start(sink: KvFeedSink): void {
    this.#running = this.#run(sink);
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#running;
  }

  async #run(sink: KvFeedSink): Promise<void> {
    const warnings = new PacedWarnings((message) => sink.warn(message));
    const backOff = new BackOff(this.#settings.retryMs);
    const { signal } = this.#ended;
    while (!signal.aborted) {
      let socket: Subscriber | null = null;
      const close = () => socket?.close();
      signal.addEventListener("abort", close, { once: true });
      try {
        socket = await subscribe(this.#target, (each) => this.#watch(each, warnings));
        if (signal.aborted) socket.close();
        await this.#follow(socket, sink, warnings);
      } catch (error) {
        if (!signal.aborted) this.#say(warnings, "connection", messageOf(error));
      } finally {
        signal.removeEventListener("abort", close);
        socket?.close();
      }
      if (!signal.aborted) await pause(backOff.next(), signal);
    }
  }

  /** Says when the publisher is lost; the socket itself connects again. */
  #watch(socket: Subscriber, warnings: PacedWarnings): void {
    let wasConnected = false;
    const lost = () => {
      if (!this.#ended.signal.aborted) this.#say(warnings, "connection", "the publisher is away");
    };
    socket.events.on("disconnect", lost);
    socket.events.on("connect:retry", lost);
    socket.events.on("handshake", () => {
      // Also at first: what was published before is to be asked for.
      this.#isReconnected = wasConnected || this.#target.replayEndpoint !== null;
      wasConnected = true;
    });
  }

  async #follow(socket: Subscriber, sink: KvFeedSink, warnings: PacedWarnings): Promise<void> {
    const { signal } = this.#ended;
    for (let count = 1; !signal.aborted; count++) {
      if (this.#isReconnected && performance.now() >= this.#replayAfterMs) {
        this.#isReconnected = false;
        await this.#repair(sink, warnings);
      }
      const frames = await received(socket);
      if (frames !== null) {
        const batch = publishedBatch(frames);
        if (batch === null) this.#say(warnings, "frames", "a message was no batch");
        else await this.#take(batch, sink, warnings);
      }
      if (count % BATCHES_PER_TURN === 0) await turn();
    }
  }

  async #take(batch: Batch, sink: KvFeedSink, warnings: PacedWarnings): Promise<void> {
    let verdict = this.#order.verdict(batch.sequence);
    if (verdict.type === "restart") {
      this.#reset(sink, "the publisher began anew");
      verdict = this.#order.verdict(batch.sequence);
    }
    if (verdict.type === "gap") {
      this.#missing = batch.sequence - verdict.from;
      // The publisher keeps this batch, too: it comes with those before it, once it answers.
      if (!(await this.#repair(sink, warnings)) && this.#failures < REPLAY_TRIES) return;
      this.#missing = 0n;
      const { next, isFollowing } = this.#order;
      if (isFollowing && next < batch.sequence) {
        this.#reset(sink, lostBatches(next, batch.sequence));
      }
      if (!isFollowing || next <= batch.sequence) this.#apply(batch, sink, warnings);
    } else if (verdict.type === "next") {
      this.#apply(batch, sink, warnings);
    }
    this.#order.passed(batch.sequence);
  }

  /**
   * Asks for what is missing, beginning with the last batch that was applied: another one of its
   * number comes from another start. False: there was no answer, or it is too early to ask again.
   */
  async #repair(sink: KvFeedSink, warnings: PacedWarnings): Promise<boolean> {
    if (this.#target.replayEndpoint === null) return true;
    if (performance.now() < this.#replayAfterMs) return false;
    try {
      if (!(await this.#replay(this.#last, sink, warnings))) {
        this.#reset(sink, "the publisher began anew");
        await this.#replay(null, sink, warnings);
      }
      this.#replays.reset();
      this.#failures = 0;
      this.#missing = 0n;
      return true;
    } catch (error) {
      this.#replayFailed(error, warnings);
      return false;
    }
  }

  /** Applies what is kept behind `last`; false where the publisher does not know that one. */
  async #replay(last: Batch | null, sink: KvFeedSink, warnings: PacedWarnings): Promise<boolean> {
    let isKnown = last === null;
    for await (const batch of this.#replayed(last?.sequence ?? 0n)) {
      if (batch.sequence === last?.sequence && !batch.payload.equals(last.payload)) return false;
      isKnown = true;
      const { next, isFollowing } = this.#order;
      if (batch.sequence < next) continue;
      if (isFollowing && batch.sequence > next) {
        this.#reset(sink, lostBatches(next, batch.sequence));
      }
      this.#apply(batch, sink, warnings);
      this.#order.replayed(batch.sequence);
    }
    return isKnown;
  }

  #replayFailed(error: unknown, warnings: PacedWarnings): void {
    if (!this.#ended.signal.aborted) this.#say(warnings, "replay", messageOf(error));
    this.#replayAfterMs = performance.now() + this.#replays.next();
    this.#failures++;
    this.#isReconnected = true;
  }

  #replayed(from: bigint): AsyncIterable<Batch> {
    const { replayEndpoint } = this.#target;
    if (replayEndpoint === null) throw new Error("There is no address for replays");
    return replay({ ...this.#target, replayEndpoint }, from, this.#ended.signal);
  }

  #apply(batch: Batch, sink: KvFeedSink, warnings: PacedWarnings): void {
    this.#last = batch;
    try {
      const { changes, refused } = readEngineBatch(this.#scope, batch.payload);
      if (changes.length > 0) sink.apply(changes);
      for (const reason of refused) this.#say(warnings, "event", reason);
    } catch (error) {
      this.#say(warnings, "event", messageOf(error));
    }
  }

  #reset(sink: KvFeedSink, reason: string): void {
    this.#order.forget();
    this.#last = null;
    sink.reset(reason);
  }

  #say(warnings: PacedWarnings, kind: string, reason: string): void {
    warnings.warn(kind, `Cannot follow KV events of ${this.#target.endpoint}: ${reason}`);
  }
}

function lostBatches(from: bigint, until: bigint): string {
  return `batches ${from} to ${until - 1n} were lost`;
}

/** The next message; null where none came for a while. */
async function received(socket: Subscriber): Promise<Buffer[] | null> {
  try {
    return await socket.receive();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EAGAIN") return null;
    throw error;
  }
}

/** The largest frame that is read. */
export function frameBytesMax({ messageBytesMax }: FeedSettings): number {
  return Math.min(messageBytesMax, FRAME_BYTES_MAX);
}
