import type { WorkerInfo } from "#cluster/protocol";
import type { CircuitBreaker } from "./breaker.ts";
import type { Upstream } from "./upstream.ts";

/** One start of a worker, as the router talks to it. */
export interface WorkerLink {
  /** What it says of itself now: an engine may load and unload adapters while it runs. */
  info: WorkerInfo;
  readonly upstream: Upstream;
  readonly breaker: CircuitBreaker;
  /** Headers of every request: the secret that the worker wants. */
  readonly headers: Readonly<Record<string, string>>;
}
