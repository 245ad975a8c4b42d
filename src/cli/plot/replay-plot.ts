/** The picture of `perigee replay --plot`: hit rates by pool size and eviction policy. */
import type { BarChart, Chart, ChartSeries, LineChart } from "#charts";
import type { ReplayResult } from "#simulator";

/** What a picture needs of a run. */
export type ReplayRow = Pick<
  ReplayResult,
  "policy" | "capacityBlocks" | "blockHitRate" | "requests" | "blockRefs"
>;

export interface ReplayPlotText {
  /** The trace's name. Any text. */
  readonly trace: string;
}

/**
 * Hit rates over pool sizes, a line for each policy. A pool without bound evicts nothing, so that
 * all policies have one value there, which the others can reach at most. With fewer than two sizes
 * to draw a line through, a row of bars for each policy.
 */
export function replayCharts(rows: readonly ReplayRow[], text: ReplayPlotText): readonly Chart[] {
  const sizes = new Set(rows.flatMap(({ capacityBlocks }) => capacityBlocks ?? []));
  const [first] = rows;
  const requests = grouped(first?.requests ?? 0);
  const counts = `${requests} requests, ${grouped(first?.blockRefs ?? 0)} block references`;
  const head = {
    title: "Block hit rate by pool size and eviction policy",
    subtitle: `${text.trace}: ${counts}`,
  };
  const chart = sizes.size > 1 ? lines(rows, [...sizes]) : bars(rows);
  return [{ ...chart, ...head }];
}

function lines(rows: readonly ReplayRow[], sizes: readonly number[]): LineChart {
  const endless = rows.find(({ capacityBlocks }) => capacityBlocks === null);
  const wide = Math.max(...sizes) > 10 * Math.min(...sizes);
  return {
    kind: "lines",
    title: "",
    x: { label: `blocks of the pool${wide ? " (log)" : ""}`, scale: wide ? "log" : "linear" },
    y: { label: "of all blocks" },
    limits:
      endless === undefined
        ? []
        : [{ axis: "y", value: endless.blockHitRate, name: "without bound" }],
    series: together(
      policiesOf(rows).map((policy) => ({
        name: policy,
        points: rows
          .flatMap((row) =>
            row.policy === policy && row.capacityBlocks !== null
              ? [[row.capacityBlocks, row.blockHitRate] as const]
              : [],
          )
          .sort(([a], [b]) => a - b),
      })),
    ),
  };
}

/** Policies that find the same are one line with both names: of two one would be hidden. */
function together(series: readonly ChartSeries[]): readonly ChartSeries[] {
  const names = new Map<string, string[]>();
  for (const { name, points } of series) {
    const key = JSON.stringify(points);
    names.set(key, [...(names.get(key) ?? []), name]);
  }
  return [...names].map(([key, equal]) => ({ name: equal.join(", "), points: JSON.parse(key) }));
}

function bars(rows: readonly ReplayRow[]): BarChart {
  const sizes = [...new Set(rows.map(({ capacityBlocks }) => capacityBlocks))];
  const found = (policy: string, size: number | null) =>
    rows.find((row) => row.policy === policy && row.capacityBlocks === size)?.blockHitRate ?? null;
  return {
    kind: "bars",
    title: "",
    series: sizes.map((size) => (size === null ? "without bound" : `${grouped(size)} blocks`)),
    rows: policiesOf(rows).map((policy) => {
      const values = sizes.map((size) => found(policy, size));
      return { label: policy, values, texts: values.map((value) => (value ?? 0).toFixed(4)) };
    }),
  };
}

function policiesOf(rows: readonly ReplayRow[]): readonly string[] {
  return [...new Set(rows.map(({ policy }) => policy))];
}

function grouped(value: number): string {
  return value.toLocaleString("en-US");
}
