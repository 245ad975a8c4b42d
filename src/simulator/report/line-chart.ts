/** Lines over two axes, as SVG that is readable on light and dark pages, without a script. */
import { type Axis, axisOf, type Scale, tickText } from "./axis.ts";
import { escaped } from "./markup.ts";

export interface ChartSeries {
  readonly name: string;
  /** [x, y] by rising x. */
  readonly points: readonly (readonly [number, number])[];
  /** Marks instead of a line: values of others, to compare with. */
  readonly marks?: boolean;
}

export interface LineChart {
  readonly title: string;
  readonly x: { readonly label: string; readonly scale?: Scale };
  readonly y: { readonly label: string; readonly scale?: Scale };
  /** At most six. */
  readonly series: readonly ChartSeries[];
  /** A value on the x axis that matters, such as a deadline. */
  readonly limit?: { readonly x: number; readonly name: string };
  /** For files of their own: the styles are in them. */
  readonly standalone?: boolean;
}

const WIDTH = 720;
const HEIGHT = 280;
const LEFT = 58;
const RIGHT = 704;
const TOP = 52;
const BOTTOM = 236;
/** More would not be seen. */
const POINTS_MAX = 400;
const SERIES_MAX = 6;
const LETTER = 6.6;

/** Of pages that hold charts, and of files that are one. */
export const CHART_STYLE = `.chart text{font:12px system-ui,sans-serif;fill:#1f2328}
.chart .quiet{fill:#59636e}.chart .grid{stroke:#d1d9e0;fill:none}
.chart .limit{stroke:#59636e;stroke-dasharray:3 3;fill:none}
.chart .line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.chart .s0{stroke:#0969da}.chart .s1{stroke:#9a6700}.chart .s2{stroke:#1a7f37}
.chart .s3{stroke:#8250df}.chart .s4{stroke:#bf3989}.chart .s5{stroke:#59636e}
@media (prefers-color-scheme:dark){.chart text{fill:#f0f6fc}.chart .quiet{fill:#9198a1}
.chart .grid{stroke:#3d444d}.chart .limit{stroke:#9198a1}
.chart .s0{stroke:#4493f8}.chart .s1{stroke:#d29922}.chart .s2{stroke:#3fb950}
.chart .s3{stroke:#ab7df8}.chart .s4{stroke:#f778ba}.chart .s5{stroke:#9198a1}}`;

export function lineChart(chart: LineChart): string {
  const series = chart.series.slice(0, SERIES_MAX).map((one) => ({
    ...one,
    points: one.points.filter((point) => point.every(Number.isFinite)),
  }));
  const points = series.flatMap((one) => one.points);
  const limit = chart.limit === undefined ? [] : [chart.limit.x];
  const x = axisOf([...points.map(([value]) => value), ...limit], chart.x.scale ?? "linear");
  const y = axisOf(
    points.map(([, value]) => value),
    chart.y.scale ?? "linear",
  );
  const parts = [
    `<title>${escaped(chart.title)}</title>`,
    ...(chart.standalone === true ? [`<style>${CHART_STYLE}</style>`] : []),
    text({ x: 8, y: 18, weight: true }, chart.title),
    ...grid(x, y),
    text({ x: (LEFT + RIGHT) / 2, y: BOTTOM + 36, anchor: "middle", quiet: true }, chart.x.label),
    text({ x: 8, y: TOP - 10, quiet: true }, chart.y.label),
    ...limitLine(chart, x),
    ...series.map((one, place) => drawn(one, place, { x, y })),
    ...legend(series),
  ];
  const box = `viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}"`;
  const name = 'xmlns="http://www.w3.org/2000/svg" class="chart" role="img"';
  return `<svg ${name} ${box}>\n${parts.join("\n")}\n</svg>\n`;
}

interface TextPlace {
  readonly x: number;
  readonly y: number;
  readonly anchor?: "middle" | "end";
  readonly quiet?: boolean;
  readonly weight?: boolean;
}

function text({ x, y, anchor, quiet, weight }: TextPlace, content: string): string {
  const looks = [
    quiet === true ? ' class="quiet"' : "",
    weight === true ? ' font-weight="600"' : "",
    anchor === undefined ? "" : ` text-anchor="${anchor}"`,
  ].join("");
  return `<text x="${round(x)}" y="${round(y)}"${looks}>${escaped(content)}</text>`;
}

function grid(x: Axis, y: Axis): string[] {
  const lines = y.ticks.map((tick) => {
    const at = yOf(y, tick);
    return `<path class="grid" d="M${LEFT} ${at}H${RIGHT}"/>${text(
      { x: LEFT - 6, y: at + 4, anchor: "end", quiet: true },
      tickText(tick),
    )}`;
  });
  const names = x.ticks.map((tick) =>
    text({ x: xOf(x, tick), y: BOTTOM + 18, anchor: "middle", quiet: true }, tickText(tick)),
  );
  return [...lines, ...names];
}

function limitLine({ limit }: LineChart, x: Axis): string[] {
  if (limit === undefined) return [];
  const at = xOf(x, limit.x);
  return [
    `<path class="limit" d="M${at} ${TOP}V${BOTTOM}"/>`,
    text({ x: at - 4, y: TOP + 10, anchor: "end", quiet: true }, limit.name),
  ];
}

function drawn({ points, marks }: ChartSeries, place: number, axes: { x: Axis; y: Axis }): string {
  const step = Math.max(1, Math.ceil(points.length / POINTS_MAX));
  const kept = points.filter((_, at) => at % step === 0 || at === points.length - 1);
  const at = kept.map(([x, y]) => `${xOf(axes.x, x)} ${yOf(axes.y, y)}`);
  if (marks === true) {
    const crosses = at.map((point) => `M${point}m-4-4l8 8m0-8l-8 8`).join("");
    return `<path class="line s${place}" d="${crosses}"/>`;
  }
  return at.length === 0 ? "" : `<path class="line s${place}" d="M${at.join("L")}"/>`;
}

function legend(series: readonly ChartSeries[]): string[] {
  let left = RIGHT;
  const widths = series.map(({ name }) => 30 + name.length * LETTER);
  left -= widths.reduce((sum, width) => sum + width, 0);
  return series.map(({ name }, place) => {
    const at = round(Math.max(left, 8));
    left += widths[place] ?? 0;
    const line = `<path class="line s${place}" d="M${at} ${TOP - 14}h14"/>`;
    return line + text({ x: at + 18, y: TOP - 10, quiet: true }, name);
  });
}

function xOf(axis: Axis, value: number): number {
  return round(LEFT + axis.at(value) * (RIGHT - LEFT));
}

function yOf(axis: Axis, value: number): number {
  return round(BOTTOM - axis.at(value) * (BOTTOM - TOP));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
