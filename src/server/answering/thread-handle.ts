import { closeSync } from "node:fs";
import { Worker } from "node:worker_threads";
import type { RequestNews } from "../dashboard/request-watch.ts";
import type { MetricsSnapshot } from "../metrics.ts";
import type { ResponsesAsk, ResponsesReply } from "./remote-responses.ts";
import type { SharedPlaces } from "./shared-places.ts";
import type { FromThread, ThreadData, ThreadWork, ToThread } from "./thread-messages.ts";

/** Maximum wait for a thread's metrics; after it, the thread's previous snapshot is used. */
const METRICS_MS = 500;

/** Maximum time for a thread to end by itself. */
const CLOSING_MS = 3000;

export interface ThreadEvents {
  /** A request for the main thread to answer. */
  readonly onForward: (message: Extract<FromThread, { readonly type: "forward" }>) => void;
  /** Does what the thread asks of kept responses. */
  readonly onResponses: (what: ResponsesAsk) => Promise<ResponsesReply>;
  /** The thread ended; descriptors that it had not adopted belong to the main thread again. */
  readonly onEnd: (reason: string, descriptors: readonly number[]) => void;
}

/** Node 20 cannot run TypeScript: from source, the thread runs the built file. */
function threadUrl(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  const file = fromSource ? "../../../dist/server/answering" : ".";
  return new URL(`${file}/answering-thread.js`, import.meta.url);
}

/** The main thread's handle of one answering thread. */
export class ThreadHandle {
  readonly place: number;
  readonly #places: SharedPlaces;
  readonly #worker: Worker;
  readonly #exited: Promise<void>;
  readonly #ready: Promise<boolean>;
  #markReady: (isReady: boolean) => void = () => {};
  #isReady = false;
  #wasReady = false;
  /** Descriptors given to the thread, in order, without the first `#forgotten` ones. */
  #given: number[] = [];
  #forgotten = 0;
  #reason = "it ended";
  #metrics: MetricsSnapshot | null = null;
  #asks = 0;
  readonly #asked = new Map<number, () => void>();
  #onDrained: (() => void) | null = null;
  #onNews: ((news: RequestNews) => void) | null = null;

  /** Starts the thread, which loads its code at once. */
  constructor(place: number, places: SharedPlaces, events: ThreadEvents) {
    this.place = place;
    this.#places = places;
    const data: ThreadData = { place, counters: places.buffer };
    const name = `perigee-answering-${place + 1}`;
    this.#worker = new Worker(threadUrl(), { name, execArgv: [], workerData: data });
    this.#ready = new Promise((resolve) => {
      this.#markReady = resolve;
    });
    this.#worker.on("message", (message: FromThread) => this.#receive(message, events));
    this.#worker.on("error", (error) => {
      this.#reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    });
    this.#exited = new Promise((resolve) => {
      this.#worker.once("exit", () => {
        const descriptors = this.#takeBack();
        this.#forget();
        events.onEnd(this.#reason, descriptors);
        resolve();
      });
    });
  }

  /** Whether the thread was ready at some time; it may have ended since. */
  get wasReady(): boolean {
    return this.#wasReady;
  }

  /** Whether the thread takes connections. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** The thread's last metrics snapshot; null if there is none. */
  get lastMetrics(): MetricsSnapshot | null {
    return this.#metrics;
  }

  /** Settles with true when the thread takes connections, with false if it never will. */
  serve(work: ThreadWork): Promise<boolean> {
    this.#worker.postMessage({ type: "serve", work } satisfies ToThread, [work.connection.port]);
    return this.#ready;
  }

  /** Passes the descriptor, and its ownership, to the thread. */
  give(descriptor: number): void {
    this.#places.connect(this.place);
    const adopted = this.#places.adoptedAt(this.place);
    this.#given.splice(0, adopted - this.#forgotten);
    this.#forgotten = adopted;
    this.#given.push(descriptor);
    this.#post({ type: "connection", descriptor });
  }

  /** The thread's metrics; the previous snapshot if it does not answer in time. */
  async metrics(): Promise<MetricsSnapshot | null> {
    const ask = ++this.#asks;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#asked.set(ask, resolve);
      timer = setTimeout(resolve, METRICS_MS);
      this.#post({ type: "metrics", ask });
    });
    clearTimeout(timer);
    this.#asked.delete(ask);
    return this.#metrics;
  }

  /** Has what happened since the last call told to `take`. */
  askNews(take: (news: RequestNews) => void): void {
    this.#onNews = take;
    this.#post({ type: "news" });
  }

  /** Stops admission of requests; settles when none runs. */
  drain(): Promise<void> {
    const drained = new Promise<void>((resolve) => {
      this.#onDrained = resolve;
      if (!this.#isReady) resolve();
    });
    this.#post({ type: "drain" });
    return Promise.race([drained, this.#exited]);
  }

  abortAll(): void {
    this.#post({ type: "abort" });
  }

  /** Ends the thread with all its connections. */
  async close(): Promise<void> {
    if (this.#isReady) this.#post({ type: "close" });
    else void this.#worker.terminate();
    const timer = setTimeout(() => void this.#worker.terminate(), CLOSING_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  #receive(message: FromThread, { onForward, onResponses }: ThreadEvents): void {
    switch (message.type) {
      case "ready":
        this.#isReady = true;
        this.#wasReady = true;
        this.#markReady(true);
        break;
      case "failed":
        this.#reason = message.message;
        break;
      case "forward":
        onForward(message);
        break;
      case "responses": {
        const { ask, what } = message;
        void onResponses(what).then((reply) => this.#post({ type: "responses", ask, reply }));
        break;
      }
      case "metrics":
        this.#metrics = message.metrics;
        this.#asked.get(message.ask)?.();
        break;
      case "news":
        this.#onNews?.(message.news);
        break;
      case "drained":
        this.#onDrained?.();
        break;
    }
  }

  /** Descriptors that the thread was given and did not adopt. */
  #takeBack(): readonly number[] {
    const adopted = this.#places.adoptedAt(this.place) - this.#forgotten;
    return this.#given.slice(adopted);
  }

  #forget(): void {
    this.#isReady = false;
    this.#markReady(false);
    this.#given = [];
    for (const resolve of this.#asked.values()) resolve();
    this.#places.clear(this.place);
  }

  #post(message: ToThread): void {
    this.#worker.postMessage(message);
  }
}

/** Closes connections that no thread will answer. */
export function closeDescriptors(descriptors: readonly number[]): void {
  for (const descriptor of descriptors) closeSync(descriptor);
}
