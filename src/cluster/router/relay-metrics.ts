/** What relays count. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
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

/** What relayed a token to its client. */
export type RelayedBy = "native" | "javascript";

export class RelayMetrics {
  /** Tokens since the start: a number costs less for each of them than a counter does. */
  readonly tokens: Record<RelayedBy, number> = { native: 0, javascript: 0 };
  readonly #attempts: Counter<"worker" | "outcome">;
  readonly #routed: Counter<"worker" | "reason">;
  readonly #retries: Counter<"worker">;
  readonly #migrations: Counter<"worker">;
  readonly #firstToken: Histogram<"worker">;
  readonly #overhead: Histogram;

  /** `native`: the thread that relays; null: there is none. */
  constructor(registry: Registry, native: { readonly loanCount: number } | null) {
    const registers = [registry];
    this.#showTokens(registers, native);
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

  #showTokens(registers: Registry[], native: { readonly loanCount: number } | null): void {
    const { tokens } = this;
    new Counter({
      name: "perigee_router_relayed_tokens_total",
      help: "Tokens of streams that were relayed, by the native thread and by JavaScript.",
      labelNames: ["by"],
      registers,
      collect() {
        this.reset();
        for (const [by, count] of Object.entries(tokens)) this.inc({ by }, count);
      },
    });
    new Gauge({
      name: "perigee_router_native_relay",
      help: "1: a native thread relays what is plain of streams; 0: JavaScript relays all of it.",
      registers,
      collect() {
        this.set(native === null ? 0 : 1);
      },
    });
    new Gauge({
      name: "perigee_router_native_relay_streams",
      help: "Streams that the native thread relays now.",
      registers,
      collect() {
        this.set(native?.loanCount ?? 0);
      },
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
