import { randomUUID } from "node:crypto";
import type { ServedModel } from "#engine";
import type { Admission } from "./admission.ts";
import type { ServerConfig } from "./config.ts";
import type { ZmqKvPublisher } from "./kv-events/zmq-publisher.ts";
import type { EngineMetrics } from "./metrics.ts";
import type { UsageCounter } from "./openai/usage.ts";

/** What every route needs. */
export interface ServerContext {
  readonly model: ServedModel;
  readonly config: ServerConfig;
  /** Names that clients may ask for; the first is the one that answers show. Never empty. */
  readonly modelNames: readonly [string, ...string[]];
  readonly admission: Admission;
  readonly metrics: EngineMetrics;
  /** Null unless KV events are published for routers. */
  readonly kvPublisher: ZmqKvPublisher | null;
  /** Perigee's own version. */
  readonly version: string;
  /** A fresh random id, for answers and tool calls: letters, digits and dashes. */
  newId(): string;
  /** Unix time in whole seconds. */
  nowSeconds(): number;
}

const msPerSecond = 1000;

/** With names and time as the system gives them. */
export function createContext(parts: Omit<ServerContext, "newId" | "nowSeconds">): ServerContext {
  return {
    ...parts,
    newId: () => randomUUID(),
    nowSeconds: () => Math.floor(Date.now() / msPerSecond),
  };
}

/** One request in work. */
export interface Call {
  /** The client's request id, or a fresh one; answers are called `chatcmpl-<id>` and so on. */
  readonly id: string;
  /** Unix time in seconds at which it came. */
  readonly created: number;
  /** Aborted when the client hangs up or the server ends at once. */
  readonly signal: AbortSignal;
  /** Tokens of the request so far: for its answer and for the log. */
  readonly usage: UsageCounter;
}
