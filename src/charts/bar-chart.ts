/** Rows of bars with their values beside them. */
import type { BarChart, BarRow } from "./chart.ts";
import {
  colour,
  type Drawn,
  EDGE,
  heading,
  legend,
  listed,
  round,
  text,
  valueText,
  WIDTH,
} from "./drawn.ts";
import { escaped } from "./markup.ts";
import { fitted, textWidth } from "./text-width.ts";

const BAR = 13;
const GAP = 2;
const ROW_GAP = 10;
const ROWS_MAX = 100;
const SERIES_MAX = 24;
const LABEL_MAX = 250;
const FONT = 12;
const SMALL = 11;

/** One bar. */
interface Bar {
  /** Of its series. */
  readonly place: number;
  readonly value: number;
  readonly text: string;
}

interface Row {
  readonly label: string;
  readonly bars: readonly Bar[];
}

export function drawBars(chart: BarChart): Drawn {
  const rows = chart.rows.slice(0, ROWS_MAX).map((row) => drawable(row, chart));
  const left = EDGE + labelWidth(rows) + 8;
  const full = fullWidth(rows, chart, WIDTH - EDGE - left);
  const head = heading(chart.title, chart.subtitle);
  const names = chart.series.length > 1 ? chart.series.slice(0, SERIES_MAX) : [];
  const key = legend(names, swatch, head.bottom);
  const { limit } = chart;
  let y = key.bottom + (limit === undefined ? 10 : 26);
  const top = y;
  const parts: string[] = [];
  for (const row of rows) {
    parts.push(...drawnRow(row, { left, y, full, series: chart.series }));
    y += rowHeight(row) + ROW_GAP;
  }
  const line =
    limit === undefined
      ? []
      : limitLine(limit, { x: left + limit.value * full, top, bottom: y - 6 });
  return {
    height: y + 4,
    parts: [...head.parts, ...key.parts, ...parts, ...line],
    summary: `${chart.title}. ${listed(
      rows.map((row) => inWords(row, chart)),
      30,
    )}.`,
  };
}

function drawable({ label, values, texts }: BarRow, { unit = "" }: BarChart): Row {
  const bars = values.slice(0, SERIES_MAX).flatMap((value, place) => {
    if (value === null || !Number.isFinite(value)) return [];
    return [{ place, value: Math.max(value, 0), text: texts?.[place] ?? valueText(value) + unit }];
  });
  return { label: fitted(label, FONT, LABEL_MAX), bars };
}

function labelWidth(rows: readonly Row[]): number {
  return Math.max(0, ...rows.map(({ label }) => textWidth(label, FONT)));
}

/** Pixels of a value of 1, such that each bar and its text fit into `room`. */
function fullWidth(rows: readonly Row[], { limit }: BarChart, room: number): number {
  let most = Number.POSITIVE_INFINITY;
  for (const { value, text: words } of rows.flatMap(({ bars }) => bars)) {
    if (value > 0) most = Math.min(most, (room - 8 - textWidth(words, SMALL)) / value);
  }
  if (limit !== undefined && limit.value > 0) most = Math.min(most, (room - 20) / limit.value);
  return Number.isFinite(most) ? Math.max(most, 0) : 0;
}

function rowHeight({ bars }: Row): number {
  return Math.max(bars.length, 1) * (BAR + GAP) - GAP;
}

interface RowPlace {
  readonly left: number;
  readonly y: number;
  /** Pixels of a value of 1. */
  readonly full: number;
  readonly series: readonly string[];
}

function drawnRow(row: Row, { left, y, full, series }: RowPlace): string[] {
  const middle = y + rowHeight(row) / 2 + 4;
  const label = text({ x: left - 8, y: middle, anchor: "end" }, row.label);
  const bars = row.bars.map(({ place, value, text: words }, at) => {
    const top = y + at * (BAR + GAP);
    const width = round(value * full);
    const shape = `x="${round(left)}" y="${top}" width="${width}" height="${BAR}" rx="2"`;
    const name = [row.label, series[place] ?? "", words].filter((part) => part !== "").join(": ");
    const title = `<title>${escaped(name)}</title>`;
    const value_ = text({ x: left + width + 5, y: top + BAR - 2.5, look: "small" }, words);
    return `<rect class="f${colour(place)}" ${shape}>${title}</rect>${value_}`;
  });
  return [label, ...bars];
}

function swatch(place: number, x: number, y: number): string {
  const shape = `x="${round(x)}" y="${round(y - 10)}" width="14" height="11" rx="2"`;
  return `<rect class="f${colour(place)}" ${shape}/>`;
}

function limitLine(
  { name }: { readonly name: string },
  { x, top, bottom }: { readonly x: number; readonly top: number; readonly bottom: number },
): string[] {
  return [
    `<path class="limit" d="M${round(x)} ${round(top - 6)}V${round(bottom)}"/>`,
    text(
      {
        x: Math.min(x, WIDTH - EDGE - textWidth(name, FONT) / 2),
        y: top - 11,
        anchor: "middle",
        look: "quiet",
      },
      name,
    ),
  ];
}

function inWords({ label, bars }: Row, { series }: BarChart): string {
  const values = bars.map(({ place, text: words }) =>
    series.length > 1 ? `${series[place] ?? ""} ${words}` : words,
  );
  return `${label}: ${values.length === 0 ? "nothing" : values.join(", ")}`;
}
