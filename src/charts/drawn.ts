/** Pieces that all kinds of charts are made of. */
import { escaped } from "./markup.ts";
import { SERIES_COLOURS } from "./style.ts";
import { fitted, textWidth, wrapped } from "./text-width.ts";

/** A chart from its upper left corner on. */
export interface Drawn {
  readonly height: number;
  readonly parts: readonly string[];
  /** What it shows, in words, for readers that cannot see it. */
  readonly summary: string;
}

/** All charts are so wide. */
export const WIDTH = 760;
/** Free at both sides. */
export const EDGE = 10;

const FONT = 12;
const HEADING = 14;
const LEGEND_ROW = 18;
const SWATCH = 14;
/** Between the entries of a legend. */
const APART = 18;

export interface TextPlace {
  readonly x: number;
  readonly y: number;
  readonly anchor?: "middle" | "end";
  readonly look?: string;
}

export function text({ x, y, anchor, look }: TextPlace, content: string): string {
  const looks = look === undefined ? "" : ` class="${look}"`;
  const side = anchor === undefined ? "" : ` text-anchor="${anchor}"`;
  return `<text x="${round(x)}" y="${round(y)}"${looks}${side}>${escaped(content)}</text>`;
}

/** A heading, what is below it, and the place where the next thing may begin. */
export function heading(title: string, subtitle = ""): { parts: string[]; bottom: number } {
  const room = WIDTH - 2 * EDGE;
  const lines = wrapped(subtitle, FONT, { most: room, count: 3 });
  const parts = [text({ x: EDGE, y: 22, look: "heading" }, fitted(title, HEADING, room))];
  lines.forEach((line, place) => {
    parts.push(text({ x: EDGE, y: 41 + 16 * place, look: "quiet" }, line));
  });
  return { parts, bottom: 30 + 16 * lines.length };
}

/** A sample of a series, as the legend shows it, beside a text whose base line is at `y`. */
export type Swatch = (place: number, x: number, y: number) => string;

/** Names of series in as many rows as they need. */
export function legend(names: readonly string[], swatch: Swatch, top: number) {
  const parts: string[] = [];
  let x = EDGE;
  let y = top + 14;
  names.forEach((name, place) => {
    const short = fitted(name, FONT, 260);
    const width = SWATCH + 5 + textWidth(short, FONT);
    if (x > EDGE && x + width > WIDTH - EDGE) {
      x = EDGE;
      y += LEGEND_ROW;
    }
    parts.push(swatch(place, x, y), text({ x: x + SWATCH + 5, y, look: "quiet" }, short));
    x += width + APART;
  });
  return { parts, bottom: names.length === 0 ? top : y + 6 };
}

/** Of the series at a place; further ones than there are colours begin again. */
export function colour(place: number): number {
  return place % SERIES_COLOURS;
}

/** A tenth of a pixel is not seen. */
export function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Three digits; of thousands all of them, apart. */
export function valueText(value: number): string {
  const whole = Math.abs(value) >= 1000 && Math.abs(value) < 1e15;
  return whole ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
}

/** Items of a list; of very many the first ones and how many more there are. */
export function listed(items: readonly string[], most: number): string {
  if (items.length <= most) return items.join("; ");
  return `${items.slice(0, most).join("; ")}; and ${items.length - most} more`;
}
