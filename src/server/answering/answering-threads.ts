import type { Socket } from "node:net";
import { availableParallelism } from "node:os";
import type { MessagePort } from "node:worker_threads";
import type { FastifyBaseLogger } from "fastify";
import { messageOf } from "#base";
import type { ModelConnection, ServedModel } from "#engine";
import type { RequestNews } from "../dashboard/request-watch.ts";
import { type MetricsSnapshot, sumOf } from "../metrics.ts";
import type { ResponseStore } from "../openai/responses/response-store.ts";
import { canHandOver, handOver } from "./handover.ts";
import { answerResponses } from "./remote-responses.ts";
import { SharedPlaces } from "./shared-places.ts";
import { closeDescriptors, ThreadHandle } from "./thread-handle.ts";
import type { ThreadWork } from "./thread-messages.ts";

/** The default number of answering threads; see `answeringThreads` in ../config.ts. */
export function defaultThreads(cores: number = availableParallelism()): number {
  const CORES_PER_THREAD = 3;
  const CORES_MIN = 8;
  const THREADS_MAX = 8;
  if (cores < CORES_MIN) return 0;
  return Math.min(THREADS_MAX, Math.floor(cores / CORES_PER_THREAD));
}

/** The work of the answering threads, and the parts that stay on the main thread. */
export interface AnsweringParts extends Omit<ThreadWork, "connection"> {
  readonly model: ServedModel & Required<Pick<ServedModel, "connect">>;
  readonly log: FastifyBaseLogger;
  readonly responses: ResponseStore;
  /** Answers a forwarded request on the main thread; `port` is the other end of its connection. */
  readonly onForward: (port: MessagePort) => void;
}

/**
 * The answering threads: each connection goes to the thread with the lowest load. A crashed thread
 * is replaced; its connections end, and connections that it had not adopted go to ready threads.
 */
export class AnsweringThreads {
  /** Counters of all threads; the last place belongs to the main thread. */
  readonly places: SharedPlaces;
  readonly #threads: ThreadHandle[];
  #parts: AnsweringParts | null = null;
  #closing = false;
  /** Metrics of ended threads. */
  #ended: MetricsSnapshot[] = [];

  private constructor(count: number) {
    this.places = SharedPlaces.create(count + 1);
    this.#threads = Array.from({ length: count }, (_, place) => this.#start(place));
  }

  /** Starts `count` threads; none if the system cannot hand connections over. */
  static start(count: number): AnsweringThreads {
    return new AnsweringThreads(count > 0 && canHandOver() ? count : 0);
  }

  /** The main thread's place among the counters. */
  get ownPlace(): number {
    return this.#threads.length;
  }

  /** Settles when each thread is ready or has failed. */
  async serve(parts: AnsweringParts): Promise<void> {
    this.#parts = parts;
    await Promise.all(this.#threads.map((thread) => this.#serve(thread, parts)));
  }

  /** Gives a connection to a thread. False if no thread can take it: the caller keeps it. */
  take(socket: Socket): boolean {
    const thread = this.#leastBusy();
    const descriptor = thread === null ? null : handOver(socket);
    if (thread === null || descriptor === null) return false;
    thread.give(descriptor);
    return true;
  }

  /** Metrics of all threads, including ended ones. */
  async metrics(): Promise<readonly MetricsSnapshot[]> {
    const told = await Promise.all(this.#ready().map((thread) => thread.metrics()));
    return [...this.#ended, ...told.filter((snapshot) => snapshot !== null)];
  }

  /** Asks each thread what happened there since the last call; it is told when it answers. */
  askNews(take: (news: RequestNews) => void): void {
    for (const thread of this.#ready()) thread.askNews(take);
  }

  /** Settles when no request runs on any thread. */
  async drain(): Promise<void> {
    await Promise.all(this.#ready().map((thread) => thread.drain()));
  }

  abortAll(): void {
    for (const thread of this.#ready()) thread.abortAll();
  }

  /** Ends the threads and their connections. */
  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  #start(place: number): ThreadHandle {
    const thread: ThreadHandle = new ThreadHandle(place, this.places, {
      onForward: ({ port }) => this.#forward(port),
      onResponses: async (what) =>
        this.#parts === null ? null : await answerResponses(this.#parts.responses, what),
      onEnd: (reason, descriptors) => void this.#replace(thread, reason, descriptors),
    });
    return thread;
  }

  #forward(port: MessagePort): void {
    if (this.#parts === null || this.#closing) port.close();
    else this.#parts.onForward(port);
  }

  async #serve(thread: ThreadHandle, parts: AnsweringParts): Promise<void> {
    const { model, config, modelNames, version, responseTag } = parts;
    try {
      const connection = withShare(model.connect(), this.#threads.length);
      const work = { connection, config, modelNames, version, responseTag };
      if (await thread.serve(work)) return;
      if (!this.#closing) parts.log.error(`${nameOf(thread)} cannot serve: others answer`);
    } catch (error) {
      parts.log.error(`${nameOf(thread)} cannot serve: ${messageOf(error)}`);
    }
  }

  /** Replaces a thread that was ready once; one that never became ready would fail again. */
  async #replace(
    thread: ThreadHandle,
    reason: string,
    descriptors: readonly number[],
  ): Promise<void> {
    const parts = this.#parts;
    const { lastMetrics } = thread;
    if (lastMetrics !== null) {
      this.#ended = [await sumOf([...this.#ended, lastMetrics]).getMetricsAsJSON()];
    }
    if (this.#closing || parts === null) {
      closeDescriptors(descriptors);
      return;
    }
    parts.log.error(`${nameOf(thread)} ended: ${reason}`);
    if (thread.wasReady) {
      const next = this.#start(thread.place);
      this.#threads[thread.place] = next;
      await this.#serve(next, parts);
    }
    for (const descriptor of descriptors) {
      const taker = this.#leastBusy();
      if (taker === null) closeDescriptors([descriptor]);
      else taker.give(descriptor);
    }
  }

  #ready(): ThreadHandle[] {
    return this.#threads.filter((thread) => thread.isReady);
  }

  #leastBusy(): ThreadHandle | null {
    let best: ThreadHandle | null = null;
    let least = Number.POSITIVE_INFINITY;
    for (const thread of this.#ready()) {
      const load = this.places.loadOf(thread.place);
      if (load < least) [best, least] = [thread, load];
    }
    return best;
  }
}

/**
 * The connection for one of `threads` threads: each has its own text threads, together as many as
 * the model's settings specify, but two or more each: with two, a short text does not wait behind a
 * long one.
 */
export function withShare(connection: ModelConnection, threads: number): ModelConnection {
  const { settings } = connection;
  const wanted = settings.textWorkers;
  const textWorkers = Math.min(wanted, Math.max(2, Math.ceil(wanted / threads)));
  return { ...connection, settings: { ...settings, textWorkers } };
}

function nameOf({ place }: ThreadHandle): string {
  return `Answering thread ${place + 1}`;
}
