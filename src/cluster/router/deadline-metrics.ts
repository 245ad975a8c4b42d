/** What deadlines and the conductor's predictions come to. */
import { Counter, Gauge, type Registry } from "prom-client";
import type { ConductorErrors, DecisionRecord, ServiceWatch } from "#cluster/conductor";
import { MergedHistogram } from "./merged-histogram.ts";
import type { GapCounts } from "./native-relay.ts";

const GAP_SECONDS = [
  ...[0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2],
  ...[0.3, 0.5, 1, 2.5, 5, 10],
];
const MS_PER_SECOND = 1000;

/** By which gaps between tokens are counted. */
export const GAP_BOUNDS_MS = GAP_SECONDS.map((seconds) => seconds * MS_PER_SECOND);

export class DeadlineMetrics implements ServiceWatch {
  readonly #gaps: MergedHistogram;
  readonly #met: Counter<"deadline" | "met">;
  readonly #decisions: Counter<"decision" | "class">;
  readonly #rejected: Counter<"reason" | "stage">;

  /** `native` counts gaps by `GAP_BOUNDS_MS`; null: none are counted elsewhere. */
  constructor(
    registry: Registry,
    errors: () => ReadonlyMap<string, ConductorErrors>,
    native: { readonly gaps: GapCounts } | null,
  ) {
    const registers = [registry];
    const more = () => {
      const { counts = [], sumMs = 0 } = native?.gaps ?? {};
      return { counts, sum: sumMs / MS_PER_SECOND };
    };
    this.#gaps = new MergedHistogram(registry, {
      name: "perigee_router_time_between_tokens_seconds",
      help: "Each gap between two pieces of a stream of one sequence, as it came from its worker.",
      ...{ bounds: GAP_SECONDS, more },
    });
    let told = { met: 0, missed: 0 };
    this.#met = new Counter({
      name: "perigee_router_deadlines_total",
      help: "First tokens (ttft) and gaps (tbt) that had a deadline, and whether it was met.",
      labelNames: ["deadline", "met"],
      registers,
      collect() {
        const { met, missed } = native?.gaps ?? told;
        if (met > told.met) this.inc({ deadline: "tbt", met: "true" }, met - told.met);
        if (missed > told.missed) {
          this.inc({ deadline: "tbt", met: "false" }, missed - told.missed);
        }
        told = { met, missed };
      },
    });
    this.#decisions = new Counter({
      name: "perigee_router_decisions_total",
      help: "Decisions of the conductor, by class of the request.",
      labelNames: ["decision", "class"],
      registers,
    });
    this.#rejected = new Counter({
      name: "perigee_router_early_rejections_total",
      help: "Requests that would have missed a deadline, by that, and where it was seen.",
      labelNames: ["reason", "stage"],
      registers,
    });
    errorGauges(registry, errors);
  }

  decided({ type, reason, isBatch, stage }: DecisionRecord): void {
    this.#decisions.inc({ decision: type, class: isBatch ? "batch" : "interactive" });
    if (reason !== null) this.#rejected.inc({ reason, stage });
  }

  firstToken(ms: number, deadlineMs: number | null): void {
    if (deadlineMs !== null) this.#met.inc({ deadline: "ttft", met: String(ms <= deadlineMs) });
  }

  gap(ms: number, deadlineMs: number | null): void {
    this.#gaps.observe(ms / MS_PER_SECOND);
    if (deadlineMs !== null) this.#met.inc({ deadline: "tbt", met: String(ms <= deadlineMs) });
  }
}

/** Read when metrics are. */
function errorGauges(registry: Registry, errors: () => ReadonlyMap<string, ConductorErrors>): void {
  const labelNames = ["role", "of"] as const;
  const reports = () =>
    [...errors()].flatMap(([role, own]) =>
      (["ttft", "prefill", "decode"] as const).map((of) => ({ role, of, report: own[of] })),
    );
  new Gauge({
    name: "perigee_router_prediction_error",
    help: "Mean of |predicted - actual| / actual, newer ones more, by role of the worker.",
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      for (const { role, of, report } of reports()) this.set({ role, of }, report.meanError);
    },
  });
  new Gauge({
    name: "perigee_router_prediction_bias",
    help: "Mean of (predicted - actual) / actual: above 0, predictions are too long.",
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      for (const { role, of, report } of reports()) this.set({ role, of }, report.bias);
    },
  });
}
