/** What relays count. */
import { Counter, Histogram, type Registry } from "prom-client";
import type { Routed } from "#cluster/routing";

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const OVERHEAD_MS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000];
const MS_PER_SECOND = 1000;

/** How a request at one worker ended. */
export type AttemptResult =
  | "ok"
  | "client-error"
  | "busy"
  | "refused"
  | "failed"
  | "cancelled"
  /** The worker's role had changed: it was routed again. */
  | "stale";

export class RelayMetrics {
  readonly #attempts: Counter<"worker" | "outcome">;
  readonly #routed: Counter<"worker" | "reason">;
  readonly #retries: Counter<"worker">;
  readonly #migrations: Counter<"worker">;
  readonly #firstToken: Histogram<"worker">;
  readonly #overhead: Histogram;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#attempts = new Counter({
      name: "perigee_router_worker_requests_total",
      help: "Requests at workers, by how they ended.",
      labelNames: ["worker", "outcome"],
      registers,
    });
    this.#routed = new Counter({
      name: "perigee_router_routed_total",
      help: "Choices of workers, by the policy's reason.",
      labelNames: ["worker", "reason"],
      registers,
    });
    this.#retries = new Counter({
      name: "perigee_router_retries_total",
      help: "Requests that another worker got before their first token, by the one that failed.",
      labelNames: ["worker"],
      registers,
    });
    this.#migrations = new Counter({
      name: "perigee_router_migrations_total",
      help: "Requests that went on elsewhere behind their first token, by the one that failed.",
      labelNames: ["worker"],
      registers,
    });
    this.#firstToken = new Histogram({
      name: "perigee_router_time_to_first_token_seconds",
      help: "From a request's arrival to its first token, of streams.",
      labelNames: ["worker"],
      buckets: SECONDS,
      registers,
    });
    this.#overhead = new Histogram({
      name: "perigee_router_overhead_ms",
      help: "From a request's arrival to its first dispatch, tokenizing included.",
      buckets: OVERHEAD_MS,
      registers,
    });
  }

  routed({ worker, choice }: Routed): void {
    this.#routed.inc({ worker: worker.id, reason: choice.reason });
  }

  /** Once per request. */
  dispatched(arrivedMs: number): void {
    this.#overhead.observe(performance.now() - arrivedMs);
  }

  firstToken(worker: string, arrivedMs: number): void {
    this.#firstToken.observe({ worker }, (performance.now() - arrivedMs) / MS_PER_SECOND);
  }

  ended(worker: string, outcome: AttemptResult): void {
    this.#attempts.inc({ worker, outcome });
  }

  retried(worker: string): void {
    this.#retries.inc({ worker });
  }

  migrated(worker: string): void {
    this.#migrations.inc({ worker });
  }
}
