/** What crosses between the main thread and those that answer. */
import type { MessagePort } from "node:worker_threads";
import type { ModelConnection } from "#engine";
import type { ServerConfig } from "../config.ts";
import type { MetricsSnapshot } from "../metrics.ts";

/** What a thread begins with. */
export interface ThreadData {
  /** Its counters among those of all threads. */
  readonly place: number;
  readonly counters: SharedArrayBuffer;
}

/** What a thread needs to answer. */
export interface ThreadWork {
  readonly connection: ModelConnection;
  readonly config: ServerConfig;
  readonly modelNames: readonly [string, ...string[]];
  readonly version: string;
}

export type ToThread =
  | { readonly type: "serve"; readonly work: ThreadWork }
  /** A descriptor, the thread's from now on. */
  | { readonly type: "connection"; readonly descriptor: number }
  /** Wants its metrics. */
  | { readonly type: "metrics"; readonly ask: number }
  /** Wants to know when nothing runs; no more is taken. */
  | { readonly type: "drain" }
  /** Ends what runs. */
  | { readonly type: "abort" }
  | { readonly type: "close" };

export type FromThread =
  | { readonly type: "ready" }
  /** It cannot serve; it ends. */
  | { readonly type: "failed"; readonly message: string }
  /** A request that the main thread is to answer: a connection to its server. */
  | { readonly type: "forward"; readonly port: MessagePort }
  | { readonly type: "metrics"; readonly ask: number; readonly metrics: MetricsSnapshot }
  | { readonly type: "drained" };
