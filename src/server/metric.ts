import type { EngineStats } from "#engine";

/** The value of one series; labels distinguish the series of a metric. */
export interface Sample {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

/** One metric, whose values are read at each scrape. */
export interface Metric {
  readonly name: string;
  readonly help: string;
  /** Label names of all its series. Default: none. */
  readonly labelNames?: readonly string[];
  readonly samples: (stats: EngineStats) => readonly Sample[];
}
