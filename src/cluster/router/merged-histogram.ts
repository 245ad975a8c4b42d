import type { Metric, Registry } from "prom-client";

/** What is counted elsewhere, by the same bounds. */
export interface MoreCounts {
  /** Of values up to each bound and above the one before it, and of those above all. */
  readonly counts: readonly number[];
  readonly sum: number;
}

export interface MergedHistogramParts {
  readonly name: string;
  readonly help: string;
  /** Ascending. */
  readonly bounds: readonly number[];
  readonly more: () => MoreCounts;
}

/** A histogram of Prometheus without labels, whose values are counted here and elsewhere. */
export class MergedHistogram {
  readonly name: string;
  readonly #parts: MergedHistogramParts;
  readonly #counts: number[];
  #sum = 0;

  constructor(registry: Registry, parts: MergedHistogramParts) {
    this.name = parts.name;
    this.#parts = parts;
    this.#counts = new Array(parts.bounds.length + 1).fill(0);
    // prom-client's own histogram takes single values alone; a registry needs a name and `get`.
    registry.registerMetric(this as unknown as Metric);
  }

  observe(value: number): void {
    const at = this.#parts.bounds.findIndex((bound) => value <= bound);
    const place = at < 0 ? this.#parts.bounds.length : at;
    this.#counts[place] = (this.#counts[place] ?? 0) + 1;
    this.#sum += value;
  }

  /** As prom-client's metrics tell of themselves. */
  async get() {
    const { name, help, bounds, more } = this.#parts;
    const { counts, sum } = more();
    let count = 0;
    const values = [...bounds, "+Inf"].map((le, place) => {
      count += (this.#counts[place] ?? 0) + (counts[place] ?? 0);
      return { metricName: `${name}_bucket`, labels: { le }, value: count };
    });
    const rest = [
      { metricName: `${name}_sum`, labels: {}, value: this.#sum + sum },
      { metricName: `${name}_count`, labels: {}, value: count },
    ];
    return { name, help, type: "histogram", aggregator: "sum", values: [...values, ...rest] };
  }

  reset(): void {
    this.#counts.fill(0);
    this.#sum = 0;
  }
}
