/** What of a chart is drawn: as much as can be seen, whatever was asked for. */
import type { BarChart, BarRow, ChartSeries, LineChart, PlaceText } from "./chart.ts";

const SERIES_MAX = 24;
const POINTS_MAX = 400;
const ROWS_MAX = 100;
const LIMITS_MAX = 8;
const PLACES_MAX = 100;
/** Characters of a name; those of a subtitle may be more. */
const NAME_MAX = 200;
const TEXT_MAX = 1000;

/** Without points that are no numbers, and of very many every second, third … */
export function boundedLines(chart: LineChart): LineChart {
  return {
    ...chart,
    title: short(chart.title),
    subtitle: short(chart.subtitle ?? "", TEXT_MAX),
    x: boundedAxis(chart.x),
    y: { ...chart.y, label: short(chart.y.label) },
    series: chart.series.slice(0, SERIES_MAX).map(boundedSeries),
    limits: (chart.limits ?? [])
      .filter(({ value }) => Number.isFinite(value))
      .slice(0, LIMITS_MAX)
      .map((limit) => ({ ...limit, name: short(limit.name) })),
  };
}

function boundedAxis(axis: PlaceText): PlaceText {
  const { names, label } = axis;
  const places = names === undefined ? {} : { names: names.slice(0, PLACES_MAX).map(shortName) };
  return { ...axis, ...places, label: short(label) };
}

function boundedSeries(series: ChartSeries): ChartSeries {
  const points = series.points.filter((point) => point.every(Number.isFinite));
  const step = Math.max(1, Math.ceil(points.length / POINTS_MAX));
  const kept = points.filter((_, at) => at % step === 0 || at === points.length - 1);
  return { ...series, name: short(series.name), points: kept };
}

/** Values that are no numbers have no bar, and those below 0 one of no length. */
export function boundedBars(chart: BarChart): BarChart {
  const { limit } = chart;
  return {
    ...chart,
    title: short(chart.title),
    subtitle: short(chart.subtitle ?? "", TEXT_MAX),
    unit: short(chart.unit ?? ""),
    series: chart.series.slice(0, SERIES_MAX).map(shortName),
    rows: chart.rows.slice(0, ROWS_MAX).map(boundedRow),
    ...(limit === undefined ? {} : { limit: { ...limit, name: short(limit.name) } }),
  };
}

function boundedRow({ label, values, texts }: BarRow): BarRow {
  return {
    label: short(label),
    values: values
      .slice(0, SERIES_MAX)
      .map((value) => (value === null || !Number.isFinite(value) ? null : Math.max(value, 0))),
    ...(texts === undefined ? {} : { texts: texts.slice(0, SERIES_MAX).map(shortName) }),
  };
}

function shortName(text: string): string {
  return short(text);
}

function short(text: string, most = NAME_MAX): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
