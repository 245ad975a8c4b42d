/** Rows of bars with their values beside them. */
import { boundedBars } from "./bounds.ts";
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
const LABEL_MAX = 280;
const VALUE_MAX = 200;
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

export function drawBars(asked: BarChart): Drawn {
  const chart = boundedBars(asked);
  const rows = chart.rows.map((row) => drawable(row, chart));
  const left = EDGE + labelWidth(rows) + 8;
  const full = fullWidth(rows, chart, WIDTH - EDGE - left);
  const head = heading(chart.title, chart.subtitle);
  const names = chart.series.length > 1 ? chart.series : [];
  const key = legend(names, swatch, head.bottom);
  const { limit } = chart;
  let y = key.bottom + (limit === undefined ? 10 : 26);
  const top = y;
  const bars: string[] = [];
  const texts: string[] = [];
  for (const row of rows) {
    const place = { left, y, full, series: chart.series };
    bars.push(...row.bars.map((bar, at) => drawnBar(row, bar, { ...place, at })));
    texts.push(...rowTexts(row, place));
    y += rowHeight(row) + ROW_GAP;
  }
  const line =
    limit === undefined
      ? []
      : limitLine(limit, { x: left + limit.value * full, top, bottom: y - 6 });
  return {
    height: y + 4,
    // Values stand above the line that they are compared with.
    parts: [...head.parts, ...key.parts, ...bars, ...line, ...texts],
    summary: `${chart.title}. ${listed(
      rows.map((row) => inWords(row, chart)),
      30,
    )}.`,
  };
}

function drawable({ label, values, texts }: BarRow, { unit = "" }: BarChart): Row {
  const bars = values.flatMap((value, place) =>
    value === null
      ? []
      : [
          {
            ...{ place, value },
            text: fitted(texts?.[place] ?? valueText(value) + unit, SMALL, VALUE_MAX),
          },
        ],
  );
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

function rowTexts(row: Row, { left, y, full }: RowPlace): string[] {
  const middle = y + rowHeight(row) / 2 + 4;
  return [
    text({ x: left - 8, y: middle, anchor: "end" }, row.label),
    ...row.bars.map(({ value, text: words }, at) => {
      const base = topOf(y, at) + BAR - 2.5;
      return text({ x: left + round(value * full) + 5, y: base, look: "small over" }, words);
    }),
  ];
}

function drawnBar(
  { label }: Row,
  { place, value, text: words }: Bar,
  { left, y, full, series, at }: RowPlace & { readonly at: number },
): string {
  const width = round(value * full);
  const shape = `x="${round(left)}" y="${topOf(y, at)}" width="${width}" height="${BAR}" rx="2"`;
  const name = [label, series[place] ?? "", words].filter((part) => part !== "").join(": ");
  return `<rect class="f${colour(place)}" ${shape}><title>${escaped(name)}</title></rect>`;
}

/** Of the bar at a place of its row. */
function topOf(y: number, at: number): number {
  return round(y + at * (BAR + GAP));
}

function swatch(place: number, x: number, y: number): string {
  const shape = `x="${round(x)}" y="${round(y - 10)}" width="14" height="11" rx="2"`;
  return `<rect class="f${colour(place)}" ${shape}/>`;
}

function limitLine(
  { name }: { readonly name: string },
  { x, top, bottom }: { readonly x: number; readonly top: number; readonly bottom: number },
): string[] {
  const short = fitted(name, FONT, LABEL_MAX);
  const half = textWidth(short, FONT) / 2;
  const middle = Math.min(Math.max(x, EDGE + half), WIDTH - EDGE - half);
  return [
    `<path class="limit" d="M${round(x)} ${round(top - 6)}V${round(bottom)}"/>`,
    text({ x: middle, y: top - 11, anchor: "middle", look: "quiet" }, short),
  ];
}

function inWords({ label, bars }: Row, { series }: BarChart): string {
  const values = bars.map(({ place, text: words }) =>
    series.length > 1 ? `${series[place] ?? ""} ${words}` : words,
  );
  return `${label}: ${values.length === 0 ? "nothing" : values.join(", ")}`;
}
