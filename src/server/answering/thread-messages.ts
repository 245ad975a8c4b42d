/** Messages between the main thread and the answering threads. */
import type { MessagePort } from "node:worker_threads";
import type { ModelConnection } from "#engine";
import type { ServerConfig } from "../config.ts";
import type { RequestNews } from "../dashboard/request-watch.ts";
import type { MetricsSnapshot } from "../metrics.ts";
import type { ResponsesAsk, ResponsesReply } from "./remote-responses.ts";

/** Start data of an answering thread. */
export interface ThreadData {
  /** The thread's index in the shared counters. */
  readonly place: number;
  readonly counters: SharedArrayBuffer;
}

/** The data that a thread needs to serve. */
export interface ThreadWork {
  readonly connection: ModelConnection;
  readonly config: ServerConfig;
  readonly modelNames: readonly [string, ...string[]];
  readonly version: string;
  /** What stands for the server in ids of responses. */
  readonly responseTag: string;
}

export type ToThread =
  | { readonly type: "serve"; readonly work: ThreadWork }
  /** A connection's descriptor, which the thread owns from now on. */
  | { readonly type: "connection"; readonly descriptor: number }
  /** Requests the thread's metrics. */
  | { readonly type: "metrics"; readonly ask: number }
  /** The answer to a thread's `responses`. */
  | { readonly type: "responses"; readonly ask: number; readonly reply: ResponsesReply }
  /** Requests what happened since the last such message, for the page. */
  | { readonly type: "news" }
  /** Stops admission; requests `drained` when no request runs. */
  | { readonly type: "drain" }
  /** Aborts the running requests. */
  | { readonly type: "abort" }
  | { readonly type: "close" };

export type FromThread =
  | { readonly type: "ready" }
  /** The thread cannot serve, and ends. */
  | { readonly type: "failed"; readonly message: string }
  /** A request for the main thread to answer, as a connection to its server. */
  | { readonly type: "forward"; readonly port: MessagePort }
  | { readonly type: "metrics"; readonly ask: number; readonly metrics: MetricsSnapshot }
  /** Asks for kept responses, or keeps one. */
  | { readonly type: "responses"; readonly ask: number; readonly what: ResponsesAsk }
  | { readonly type: "news"; readonly news: RequestNews }
  | { readonly type: "drained" };
