/** What the waiting room counts. Clients choose priorities: there are three classes of them. */
import { Counter, Histogram, type Registry } from "prom-client";
import type { Refusal } from "#cluster/routing";

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const MS_PER_SECOND = 1000;

/** Before the usual priority 0, that, and behind it. */
export type PriorityClass = "high" | "normal" | "low";

export function priorityClass(priority: number): PriorityClass {
  if (priority === 0) return "normal";
  return priority < 0 ? "high" : "low";
}

export class QueueMetrics {
  readonly #waits: Histogram<"priority">;
  readonly #refused: Counter<"priority" | "reason">;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#waits = new Histogram({
      name: "perigee_router_queue_wait_seconds",
      help: "Waits at the router of requests that then got a worker; others did not wait.",
      labelNames: ["priority"],
      buckets: SECONDS,
      registers,
    });
    this.#refused = new Counter({
      name: "perigee_router_queue_refused_total",
      help: "Requests that were not served since all workers were busy, by reason.",
      labelNames: ["priority", "reason"],
      registers,
    });
  }

  admitted(priority: PriorityClass, waitedMs: number): void {
    this.#waits.observe({ priority }, waitedMs / MS_PER_SECOND);
  }

  refused(priority: PriorityClass, reason: Refusal["reason"]): void {
    this.#refused.inc({ priority, reason });
  }
}
