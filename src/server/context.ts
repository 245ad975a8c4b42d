import { randomUUID } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ServedModel } from "#engine";
import type { Admission } from "./admission.ts";
import type { ServerConfig } from "./config.ts";
import type { ServerExtension } from "./extension.ts";
import type { ZmqKvPublisher } from "./kv-events/zmq-publisher.ts";
import type { EngineMetrics } from "./metrics.ts";
import type { ResponseStore } from "./openai/responses/response-store.ts";
import type { UsageCounter } from "./openai/usage.ts";

/** Where responses are kept, and what stands for this server in their ids. */
export interface KeptResponses {
  readonly tag: string;
  readonly store: ResponseStore;
}

/** Shared context of all routes. */
export interface ServerContext {
  readonly model: ServedModel;
  readonly config: ServerConfig;
  /** Model names that requests may use; answers show the first. Never empty. */
  readonly modelNames: readonly [string, ...string[]];
  readonly admission: Admission;
  readonly metrics: EngineMetrics;
  readonly responses: KeptResponses;
  /** Null unless KV events are published for routers. */
  readonly kvPublisher: ZmqKvPublisher | null;
  /** What another layer adds, on the main thread; null: nothing. */
  readonly extension: ServerExtension | null;
  /** Has a request answered by the main thread; null on the main thread itself. */
  readonly relay: ((request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>) | null;
  /** Perigee's own version. */
  readonly version: string;
  /** A fresh random id, for answers and tool calls: letters, digits and dashes. */
  newId(): string;
  /** Unix time in whole seconds. */
  nowSeconds(): number;
}

const msPerSecond = 1000;

/** Adds `newId` and `nowSeconds` of the system to the other parts. */
export function createContext(parts: Omit<ServerContext, "newId" | "nowSeconds">): ServerContext {
  return {
    ...parts,
    newId: () => randomUUID(),
    nowSeconds: () => Math.floor(Date.now() / msPerSecond),
  };
}

/** One running request. */
export interface Call {
  /** The client's request id, or a fresh one; the answer's id is `chatcmpl-<id>` and so on. */
  readonly id: string;
  /** Arrival, as Unix time in seconds. */
  readonly created: number;
  /** Aborted when the client disconnects or the server shuts down at once. */
  readonly signal: AbortSignal;
  /** Who keeps what is kept of it: a name for the client's API key. */
  readonly owner: string;
  /** Token counts of the request so far, for its answer and for the log. */
  readonly usage: UsageCounter;
}
