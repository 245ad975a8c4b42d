/** A run of a fleet with pools as one page: no script, and nothing that is fetched. */
import { CHART_STYLE, escaped, inlineChart, type LineChart } from "#charts";
import { HOT_RANKS } from "../pools/hot-blocks.ts";
import type { LoadSample, PoolResult, TimeSpread } from "../pools/pool-result.ts";

export interface ReportOptions {
  /** What was run: the trace's name, and the like. Any text. */
  readonly title: string;
  readonly ttftDeadlineMs: number | null;
  readonly tbtDeadlineMs: number | null;
  /** Name and value of what describes the run. Any text. */
  readonly settings: readonly (readonly [string, string])[];
}

const PAGE_STYLE = `body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;
padding:0 1em;background:#fff;color:#1f2328}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em .25em 0;text-align:right}
td:first-child,th:first-child{text-align:left}tr{border-bottom:1px solid #d1d9e0}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}svg{max-width:100%;height:auto}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#f0f6fc}
tr{border-color:#3d444d}}`;

/** The page; the same result gives the same text. */
export function poolReport(result: PoolResult, options: ReportOptions): string {
  const charts = chartsOf(result, options)
    .filter(({ series }) => series.some(({ points }) => points.length > 0))
    .map(inlineChart);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escaped(options.title)}</title>
<style>${PAGE_STYLE}
${CHART_STYLE}</style>
</head>
<body>
<h1>${escaped(options.title)}</h1>
${table(["", ""], settingRows(result, options))}
<h2>Times</h2>
${table(["ms", "mean", "p50", "p90", "p99", "most"], timeRows(result))}
<h2>Distributions</h2>
${charts.slice(0, 2).join("")}<h2>Over time</h2>
${charts.slice(2).join("")}<h2>Rejected requests</h2>
${rejections(result)}
</body>
</html>
`;
}

function settingRows(result: PoolResult, { settings }: ReportOptions): readonly string[][] {
  const share = (value: number) => `${(100 * value).toFixed(1)} %`;
  return [
    ...settings.map(([name, value]) => [name, value]),
    ["policy, rejection, seed", `${result.policy}, ${result.rejection}, ${result.seed}`],
    ["requests, completed", `${result.requests}, ${result.completed}`],
    ["completed within both deadlines", share(result.goodput)],
    ["prompt tokens found", share(result.hitRate)],
    ["busy, prefill and decode", `${share(result.prefillBusy)}, ${share(result.decodeBusy)}`],
    ["requests and output tokens a second", throughput(result)],
  ];
}

function throughput({ requestsPerSecond, outputTokensPerSecond }: PoolResult): string {
  return `${requestsPerSecond.toFixed(2)}, ${outputTokensPerSecond.toFixed(0)}`;
}

function timeRows({ ttftMs, tbtP99Ms, tbtTailMs }: PoolResult): readonly string[][] {
  const row = (name: string, { mean, p50, p90, p99, max }: TimeSpread) => [
    name,
    ...[mean, p50, p90, p99, max].map((ms) => ms.toFixed(1)),
  ];
  return [
    row("first token", ttftMs),
    row("gaps' 99th percentile", tbtP99Ms),
    row("longest 10 % of gaps", tbtTailMs),
  ];
}

function chartsOf(result: PoolResult, options: ReportOptions): readonly LineChart[] {
  const { curves, loads } = result;
  const { ttftDeadlineMs, tbtDeadlineMs } = options;
  const limit = (ms: number | null) =>
    ms === null ? {} : { limits: [{ axis: "x" as const, value: ms, name: "deadline" }] };
  const percent = { label: "% of requests within" };
  const ms = { label: "ms", scale: "log" as const };
  const x = { label: "s since the start" };
  const over = (name: string, of: (load: LoadSample) => number) => ({
    name,
    points: loads.map((load) => [load.atMs / 1000, of(load)] as const),
  });
  return [
    {
      ...{
        kind: "lines",
        title: "Time to the first token",
        x: ms,
        y: percent,
        ...limit(ttftDeadlineMs),
      },
      series: [{ name: "first token", points: shares(curves.ttftMs) }],
    },
    {
      ...{
        kind: "lines",
        title: "Time between tokens, per request",
        x: ms,
        y: percent,
        ...limit(tbtDeadlineMs),
      },
      series: [
        { name: "99th percentile", points: shares(curves.tbtP99Ms) },
        { name: "mean of the longest 10 %", points: shares(curves.tbtTailMs) },
      ],
    },
    {
      ...{
        kind: "lines",
        title: "Prefill pool",
        x,
        y: { label: "s of work that waits, mean node" },
      },
      series: [over("line", ({ prefillQueueMs }) => prefillQueueMs / 1000)],
    },
    {
      ...{ kind: "lines", title: "Decode pool", x, y: { label: "requests, mean node" } },
      series: [over("decoding", ({ decoding }) => decoding)],
    },
    {
      ...{
        kind: "lines",
        title: "Hit rate",
        x,
        y: { label: "% of the tokens of prompts that begin" },
      },
      series: [over("found or fetched", ({ hitRate }) => 100 * hitRate)],
    },
    {
      ...{
        kind: "lines",
        title: "Replicas of hot blocks",
        x,
        y: { label: "prefill nodes that hold it" },
      },
      series: HOT_RANKS.map((rank, place) =>
        over(`rank ${rank}`, ({ replicas }) => replicas[place] ?? 0),
      ),
    },
    {
      ...{ kind: "lines", title: "Rejections", x, y: { label: "requests since the point before" } },
      series: [over("rejected", ({ rejected }) => rejected)],
    },
  ];
}

/** A distribution from shortest to longest. */
function shares(curve: readonly number[]): readonly (readonly [number, number])[] {
  return curve.map((ms, at) => [ms, (100 * at) / Math.max(curve.length - 1, 1)] as const);
}

function rejections({ rejected }: PoolResult): string {
  const rows = Object.entries(rejected).map(([reason, count]) => [reason, String(count)]);
  return rows.length === 0 ? "<p>None.</p>" : table(["reason", "requests"], rows);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, row: readonly string[]) =>
    `<tr>${row.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join("")}</tr>`;
  const titles = head.some((title) => title !== "") ? cells("th", head) : "";
  return `<table>${titles}${rows.map((row) => cells("td", row)).join("\n")}</table>`;
}
