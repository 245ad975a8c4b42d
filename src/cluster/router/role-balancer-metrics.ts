import { Counter, Gauge, type Registry } from "prom-client";
import type { PoolNeeds } from "#cluster/conductor";

/** What the conductor does with roles, as metrics. */
export class RoleBalancerMetrics {
  /** 1: this router decides. */
  readonly decides: Gauge;
  readonly changes: Counter<"role" | "outcome">;
  readonly #needed: Gauge<"pool">;

  constructor(registry: Registry) {
    const registers = [registry];
    this.decides = new Gauge({
      name: "perigee_router_decides_roles",
      help: "Whether this router gives workers roles: 1, or 0 where another one does or none can.",
      registers,
    });
    this.#needed = new Gauge({
      name: "perigee_router_pool_workers_needed",
      help: "Workers that each pool needs for its load. Of the group looked at last.",
      labelNames: ["pool"],
      registers,
    });
    this.changes = new Counter({
      name: "perigee_router_role_changes_total",
      help: "Roles that the conductor gave workers, and what became of it: changed or refused.",
      labelNames: ["role", "outcome"],
      registers,
    });
  }

  /** Null: nothing is known. */
  needed(needs: PoolNeeds | null): void {
    this.#needed.set({ pool: "prefill" }, needs?.prefill ?? 0);
    this.#needed.set({ pool: "decode" }, needs?.decode ?? 0);
  }
}
