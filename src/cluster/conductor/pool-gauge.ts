import type { Decision, Rejected } from "./decision.ts";
import { PoolDemand, type PoolLoad } from "./pool-demand.ts";
import { lateMsOf, memberOf, type NeedsParts, needsOf, type PoolMember } from "./pool-needs.ts";
import type { PoolNeeds } from "./role-balance.ts";

export interface PoolGaugeOptions {
  readonly nowMs: () => number;
  readonly parts: () => NeedsParts;
}

/** How much is asked of both pools of a conductor, and what they would need for it. */
export class PoolGauge {
  readonly #options: PoolGaugeOptions;
  readonly #demand = new PoolDemand();

  constructor(options: PoolGaugeOptions) {
    this.#options = options;
  }

  /** What was asked for lately; null: too little to say. */
  load(): PoolLoad | null {
    const nowMs = this.#options.nowMs();
    const parts = this.#options.parts();
    const { decodingRequests, decodingTokens } = parts.table;
    const found = this.#demand.read(nowMs, decodingRequests);
    if (found === null) return null;
    return { ...found, decodingTokens, lateMs: lateMsOf(parts, nowMs) };
  }

  /** How many workers both pools need for a load; null: nothing can be said. */
  needs(load: PoolLoad | null): PoolNeeds | null {
    return needsOf(this.#options.parts(), load);
  }

  /** Workers of both pools, and how long they need to end what they have. */
  members(): readonly PoolMember[] {
    const { table, pool } = this.#options.parts();
    const times = { nowMs: this.#options.nowMs(), decodeMs: pool.decodeMs };
    const members = new Set([...table.prefilling, ...table.decoding]);
    return [...members].map((instance) => memberOf(instance, times));
  }

  taken(decision: Decision): void {
    this.#add(decision, true);
  }

  /** How much is asked counts, not what is taken alone. Work that fills what is free does not. */
  refused(decision: Rejected): void {
    if (decision.priority !== "batch") this.#add(decision, false);
  }

  #add({ chosen }: Decision, isTaken: boolean): void {
    const { table } = this.#options.parts();
    // What is computed where it decodes is the decode pool's.
    const isOfPool = chosen !== null && table.find(chosen.instance)?.role === "prefill";
    this.#demand.add(this.#options.nowMs(), {
      ...{ prefillMs: isOfPool ? chosen.prefillMs : 0, isTaken },
      decoding: table.decodingRequests,
    });
  }
}
