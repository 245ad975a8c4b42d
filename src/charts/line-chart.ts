/** Lines and marks over two axes. */
import { type Axis, axisOf, placeAxis, tickText } from "./axis.ts";
import { boundedLines } from "./bounds.ts";
import type { ChartLimit, ChartSeries, LineChart, PlaceText } from "./chart.ts";
import { colour, type Drawn, EDGE, heading, legend, listed, round, text, WIDTH } from "./drawn.ts";
import { level, upright } from "./limit-lines.ts";
import { placedEnds } from "./line-ends.ts";
import { escaped } from "./markup.ts";
import { SERIES_COLOURS } from "./style.ts";
import { fitted, textWidth } from "./text-width.ts";

const PLOT_HEIGHT = 210;
/** Lines of more points have no dots. */
const DOTS_MAX = 40;
const FONT = 12;

/** Where the plot lies, and what stands where in it. */
interface Plot {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  readonly x: Axis;
  readonly y: Axis;
}

export function drawLines(asked: LineChart): Drawn {
  const chart = boundedLines(asked);
  const { series, limits = [] } = chart;
  const { x, y } = axesOf(chart, series, limits);
  const left = EDGE + Math.max(...y.ticks.map((tick) => textWidth(tickText(tick), FONT))) + 8;
  const head = heading(chart.title, chart.subtitle);
  const plain = { left, right: WIDTH - EDGE - 14, top: 0, bottom: PLOT_HEIGHT, x, y };
  const direct = directNames(series, plain);
  const names = direct === null ? series.map(({ name }) => name) : [];
  const key = legend(names, (place, at, base) => sample(series, place, { at, base }), head.bottom);
  const top = key.bottom + 30;
  const plot = { ...plain, top, bottom: top + PLOT_HEIGHT, right: direct?.right ?? plain.right };
  const parts = [
    ...head.parts,
    ...key.parts,
    text({ x: EDGE, y: top - 14, look: "quiet" }, fitted(chart.y.label, FONT, WIDTH - 2 * EDGE)),
    ...grid(chart, plot),
    ...series.map((one, place) => drawn(one, place, { plot, chart })),
    ...limits.map((limit) => limitLine(limit, plot, series)),
    ...(direct === null ? [] : endNames(series, direct.places, plot)),
  ];
  const ends = series.map((one) => inWords(one, chart.x));
  return { height: plot.bottom + 46, parts, summary: `${chart.title}. ${listed(ends, 12)}.` };
}

function axesOf(
  { x, y }: LineChart,
  series: readonly ChartSeries[],
  limits: readonly ChartLimit[],
): { x: Axis; y: Axis } {
  const all = series.flatMap(({ points }) => points);
  const of = (axis: "x" | "y") => limits.flatMap((one) => (one.axis === axis ? [one.value] : []));
  const values = (axis: "x" | "y") => [
    ...all.map((point) => point[axis === "x" ? 0 : 1]),
    ...of(axis),
  ];
  const places = x.names?.length;
  return {
    x:
      places === undefined
        ? axisOf(values("x"), { scale: x.scale ?? "linear", afar: true })
        : placeAxis(places),
    y: axisOf(values("y"), { scale: y.scale ?? "linear" }),
  };
}

interface DirectNames {
  readonly right: number;
  /** Heights above the plot's own top. */
  readonly places: readonly number[];
}

/** Room for names beside the lines; null where a legend is clearer. */
function directNames(series: readonly ChartSeries[], plot: Plot): DirectNames | null {
  if (series.length < 2) return series.length === 0 ? { right: plot.right, places: [] } : null;
  const ends = series.map((one, place) => ({
    ...{ name: one.name, end: one.points.at(-1), shade: shadeOf(one, place) },
  }));
  const last = Math.max(...ends.map(({ end }) => (end === undefined ? 0 : plot.x.at(end[0]))));
  const heights = ends.flatMap(({ name, end, shade }) =>
    end === undefined || plot.x.at(end[0]) < last - 0.02
      ? []
      : [{ name, shade, y: yOf(plot, end[1]) }],
  );
  if (heights.length < series.length) return null;
  const places = placedEnds(heights, { top: 0, bottom: plot.bottom });
  if (places === null) return null;
  const widest = Math.max(...series.map(({ name }) => textWidth(name, FONT)));
  return { right: WIDTH - EDGE - widest - 18, places };
}

function endNames(
  series: readonly ChartSeries[],
  places: readonly number[],
  plot: Plot,
): readonly string[] {
  return series.map((one, place) => {
    const [x, y] = one.points.at(-1) ?? [0, 0];
    const shade = shadeOf(one, place);
    const from = { x: xOf(plot, x), y: yOf(plot, y) };
    const to = { x: plot.right + 14, y: plot.top + (places[place] ?? 0) };
    const line = `M${round(from.x + 5)} ${from.y}L${round(to.x - 3)} ${round(to.y)}`;
    const lead = `<path class="lead s${shade}" d="${line}"/>`;
    return lead + text({ x: to.x, y: to.y + 4, look: `f${shade}` }, one.name);
  });
}

function grid({ x: named }: LineChart, plot: Plot): string[] {
  const { left, right, bottom } = plot;
  const lines = plot.y.ticks.map((tick) => {
    const at = yOf(plot, tick);
    return `<path class="grid" d="M${round(left)} ${at}H${round(right)}"/>${text(
      { x: left - 6, y: at + 4, anchor: "end", look: "quiet" },
      tickText(tick),
    )}`;
  });
  const middle = (left + right) / 2;
  const label = fitted(named.label, FONT, right - left);
  return [
    ...lines,
    ...xNames(named, plot),
    text({ x: middle, y: bottom + 36, anchor: "middle", look: "quiet" }, label),
  ];
}

/** Names below the x axis; of numbers that would touch each other, every second, third … */
function xNames({ names }: PlaceText, plot: Plot): string[] {
  const { ticks } = plot.x;
  const room = (plot.right - plot.left) / Math.max(ticks.length, 1) - 6;
  const written = ticks.map((tick) => names?.[tick] ?? tickText(tick));
  const widest = Math.max(...written.map((name) => textWidth(name, FONT)));
  const step = names === undefined ? Math.max(1, Math.ceil(widest / Math.max(room, 1))) : 1;
  return ticks.flatMap((tick, at) => {
    if (at % step !== 0) return [];
    const x = xOf(plot, tick);
    const place = { x, y: plot.bottom + 18, anchor: "middle", look: "quiet" } as const;
    const line = `<path class="grid" d="M${x} ${round(plot.bottom)}v4"/>`;
    return (
      line +
      text(place, names === undefined ? (written[at] ?? "") : fitted(written[at] ?? "", FONT, room))
    );
  });
}

function limitLine(asked: ChartLimit, plot: Plot, series: readonly ChartSeries[]): string {
  const limit = { ...asked, name: fitted(asked.name, FONT, (plot.right - plot.left) / 2 - 10) };
  if (limit.axis === "x") return upright(limit, xOf(plot, limit.value), plot);
  const courses = series.map(({ points }) =>
    points.map(([x, y]) => [xOf(plot, x), yOf(plot, y)] as const),
  );
  return level(limit, yOf(plot, limit.value), { box: plot, courses });
}

interface Drawing {
  readonly plot: Plot;
  readonly chart: LineChart;
}

function drawn(one: ChartSeries, place: number, { plot, chart }: Drawing): string {
  const shade = shadeOf(one, place);
  const at = one.points.map(([x, y]) => [xOf(plot, x), yOf(plot, y)] as const);
  const names = one.points.map(([x, y]) => `${one.name}: ${pointText(x, chart.x)}, ${tickText(y)}`);
  const dots =
    one.marks === true || at.length <= DOTS_MAX
      ? at.map((point, index) => dot({ point, one, place, name: names[index] ?? "" })).join("")
      : "";
  if (one.marks === true || at.length === 0) return dots;
  const path = at.map(([x, y]) => `${x} ${y}`).join("L");
  return `<path class="line s${shade}${broken(place)}" d="M${path}"/>${dots}`;
}

/** Of series whose colour another one has, too. */
function broken(place: number): string {
  return place >= SERIES_COLOURS ? " broken" : "";
}

interface Dot {
  readonly point: readonly [number, number];
  readonly one: ChartSeries;
  readonly place: number;
  readonly name: string;
}

/** A mark whose shape says, too, which series it is of. */
function dot({ point: [x, y], one, place, name }: Dot): string {
  const shade = shadeOf(one, place);
  const title = name === "" ? "" : `<title>${escaped(name)}</title>`;
  if (one.marks === true) {
    return `<path class="line s${shade}" d="M${x} ${y}m-4-4l8 8m0-8l-8 8">${title}</path>`;
  }
  const shape = SHAPES[shade % SHAPES.length] ?? "";
  return `<path class="f${shade}" d="M${x} ${y}${shape}">${title}</path>`;
}

/** A circle, a square, a triangle, a rhombus, a triangle downwards, a bar. */
const SHAPES: readonly string[] = [
  "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
  "m-2.8-2.8h5.6v5.6h-5.6z",
  "m0-3.8l3.6 6.4h-7.2z",
  "m0-4l4 4l-4 4l-4-4z",
  "m0 3.8l3.6-6.4h-7.2z",
  "m-4-1.5h8v3h-8z",
];

function sample(
  series: readonly ChartSeries[],
  place: number,
  { at, base }: { readonly at: number; readonly base: number },
): string {
  const one = series[place];
  if (one === undefined) return "";
  const y = base - 4;
  const mark = dot({ point: [round(at + 7), y], one, place, name: "" });
  if (one.marks === true) return mark;
  const look = `line s${shadeOf(one, place)}${broken(place)}`;
  return `<path class="${look}" d="M${round(at)} ${y}h14"/>${mark}`;
}

function shadeOf({ like }: ChartSeries, place: number): number {
  return colour(like ?? place);
}

/** Where it begins and ends. */
function inWords({ name, points }: ChartSeries, x: PlaceText): string {
  const [first] = points;
  const last = points.at(-1);
  if (first === undefined || last === undefined) return `${name}: nothing`;
  const say = ([at, value]: readonly [number, number]) =>
    `${tickText(value)} at ${pointText(at, x)}`;
  return points.length === 1 ? `${name}: ${say(first)}` : `${name}: ${say(first)}, ${say(last)}`;
}

function pointText(value: number, { names }: PlaceText): string {
  return names?.[value] ?? tickText(value);
}

function xOf({ x, left, right }: Plot, value: number): number {
  return round(left + x.at(value) * (right - left));
}

function yOf({ y, top, bottom }: Plot, value: number): number {
  return round(bottom - y.at(value) * (bottom - top));
}
