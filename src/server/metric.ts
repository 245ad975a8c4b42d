import type { EngineStats } from "#engine";

/** The value of one series, told from others of its metric by labels. */
export interface Sample {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

/** One metric that is read when somebody looks. */
export interface Metric {
  readonly name: string;
  readonly help: string;
  /** Names of the labels that all its series have. Default: none. */
  readonly labelNames?: readonly string[];
  readonly samples: (stats: EngineStats) => readonly Sample[];
}
