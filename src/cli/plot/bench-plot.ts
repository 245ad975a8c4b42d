/** Pictures of `perigee bench --plot`. */
import type { Chart, ChartLimit, LineChart } from "#charts";
import type { Timed } from "../bench/offline.ts";
import type { OnlineResult, OnlineRun } from "../bench/online.ts";
import type { SweptAxis } from "../bench/sweep.ts";

/** What a picture says of the model that ran. Any text. */
export interface BenchPlotText {
  readonly model: string;
  readonly device: string;
  readonly prompts: number;
  readonly inputLength: number;
  readonly outputLength: number;
}

/**
 * Timed runs one after the other: whether they agree is what their median does not say. With drafts
 * those without them are beside, and on a GPU the shortest time that its speeds allow.
 */
export function offlineCharts(
  timed: Timed,
  text: BenchPlotText,
  limitSeconds: number | null,
): readonly Chart[] {
  const { model, device, prompts, inputLength, outputLength } = text;
  const runs = timed.seconds.map((_, place) => String(place + 1));
  const series = [
    { name: timed.undrafted.length > 0 ? "with drafts" : "runs", points: placed(timed.seconds) },
    ...(timed.undrafted.length > 0
      ? [{ name: "without drafts", points: placed(timed.undrafted) }]
      : []),
  ];
  const limits: ChartLimit[] =
    limitSeconds === null ? [] : [{ axis: "y", value: limitSeconds, name: "the GPU's limit" }];
  return [
    {
      kind: "lines",
      title: "Seconds of each timed run",
      subtitle:
        `${model} on ${device}: ${prompts} prompts of ${inputLength} tokens, ` +
        `${outputLength} tokens generated for each`,
      x: { label: "run", names: runs },
      y: { label: "s" },
      limits,
      series,
    },
  ];
}

function placed(values: readonly number[]): (readonly [number, number])[] {
  return values.map((value, place) => [place, value] as const);
}

/** Distributions of one run's times. */
export function onlineCharts(run: OnlineRun): readonly Chart[] {
  const { result, samples } = run;
  const x = { label: "ms (log)", scale: "log" as const };
  const y = { label: "% of requests within" };
  const charts: LineChart[] = [
    {
      ...{ kind: "lines", title: "Time to the first token, and to the last", x, y },
      subtitle: loadText(result),
      series: [
        { name: "first token", points: shares(samples.firstTokenMs) },
        { name: "end to end", points: shares(samples.endToEndMs) },
      ],
    },
    {
      ...{ kind: "lines", title: "Time between tokens", x, y: { label: "% of gaps within" } },
      series: [{ name: "gaps", points: shares(samples.gapsMs) }],
    },
  ];
  return charts.filter(({ series }) => series.some(({ points }) => points.length > 0));
}

/** From shortest to longest, in steps of 1 %. */
function shares(times: readonly number[]): (readonly [number, number])[] {
  if (times.length === 0) return [];
  const sorted = [...times].sort((a, b) => a - b);
  return Array.from({ length: 101 }, (_, percent) => {
    const rank = Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1);
    return [sorted[rank] ?? 0, percent] as const;
  });
}

const AXIS_LABELS: Readonly<Record<SweptAxis, string>> = {
  requestRate: "requests sent a second",
  concurrencyMax: "most concurrent requests",
};

/** What grows with the load and what it costs: speed, first tokens, gaps. */
export function sweepCharts(runs: readonly OnlineRun[], axis: SweptAxis): readonly Chart[] {
  const results = runs.map(({ result }) => result).sort((a, b) => a[axis] - b[axis]);
  const [first] = results;
  const x = { label: AXIS_LABELS[axis], names: results.map((result) => loadName(result[axis])) };
  const over = (name: string, of: (result: OnlineResult) => number) => ({
    name,
    points: placed(results.map(of)),
  });
  const spread = (title: string, of: (result: OnlineResult) => OnlineResult["endToEndMs"]) =>
    ({
      ...{ kind: "lines", title, x, y: { label: "ms (log)", scale: "log" } },
      series: [
        over("p50", (result) => of(result).p50),
        over("p90", (result) => of(result).p90),
        over("p99", (result) => of(result).p99),
      ],
    }) as const satisfies Chart;
  return [
    {
      ...{ kind: "lines", title: "Output tokens a second", x, y: { label: "tokens a second" } },
      subtitle: first === undefined ? "" : sizesText(first),
      series: [over("output", ({ outputTokensPerSecond }) => outputTokensPerSecond)],
    },
    spread("Time to the first token", ({ timeToFirstTokenMs }) => timeToFirstTokenMs),
    spread("Time between tokens", ({ interTokenMs }) => interTokenMs),
  ];
}

function loadName(value: number): string {
  return Number.isFinite(value) ? String(value) : "all at once";
}

function loadText(result: OnlineResult): string {
  const { requestRate, concurrencyMax } = result;
  const rate = Number.isFinite(requestRate) ? `${requestRate} requests a second` : "all at once";
  return `${sizesText(result)}; ${rate}, at most ${concurrencyMax} at a time`;
}

function sizesText({ model, url, completed, dataset, inputLength, outputLength }: OnlineResult) {
  const prompts = dataset === null ? `of ${inputLength} tokens` : `of ${dataset}`;
  const outputs = `${outputLength} tokens generated for each`;
  return `${model} at ${url}: ${completed} prompts ${prompts}, ${outputs}`;
}
