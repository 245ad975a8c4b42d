/** Lines at values that matter, with their names where no other line passes. */
import type { ChartLimit } from "./chart.ts";
import { round, text } from "./drawn.ts";
import { textWidth } from "./text-width.ts";

/** Corners of the plot, in pixels. */
export interface PlotBox {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** The points of a line, in pixels, by rising x. */
export type Course = readonly (readonly [number, number])[];

const FONT = 12;
/** Between a line and its name. */
const GAP = 5;

/** An upright line. Its name is on the side that has more room. */
export function upright({ name }: ChartLimit, x: number, box: PlotBox): string {
  const { left, right, top, bottom } = box;
  const line = `<path class="limit" d="M${x} ${round(top)}V${round(bottom)}"/>`;
  const place = { y: top + 11, look: "quiet over" };
  return x > (left + right) / 2
    ? line + text({ ...place, x: x - GAP, anchor: "end" }, name)
    : line + text({ ...place, x: x + GAP }, name);
}

/** A level line. Its name is above or below it, where fewest of the other lines cross it. */
export function level(
  { name }: ChartLimit,
  y: number,
  { box, courses }: { readonly box: PlotBox; readonly courses: readonly Course[] },
): string {
  const { left, right, top, bottom } = box;
  const line = `<path class="limit" d="M${round(left)} ${y}H${round(right)}"/>`;
  const width = textWidth(name, FONT);
  const starts = [left + 6, (left + right - width) / 2, right - width - 6];
  const places = starts.flatMap((x) => [
    { x, base: y - GAP },
    { x, base: y + FONT + 1 },
  ]);
  const fit = places.filter(({ base }) => base - FONT > top && base + 3 < bottom);
  const crossings = fit.map(({ x, base }) => {
    const own = { left: x - 4, right: x + width + 4, top: base - FONT, bottom: base + 4 };
    return courses.filter((course) => crosses(course, own)).length;
  });
  const best = fit[crossings.indexOf(Math.min(...crossings))] ?? { x: left + 6, base: y - GAP };
  return line + text({ x: best.x, y: best.base, look: "quiet over" }, name);
}

/** Looked at every few pixels: a name is wider than that. */
function crosses(course: Course, box: PlotBox): boolean {
  const step = 4;
  return course.some(([x0, y0], at) => {
    const [x1, y1] = course[at + 1] ?? [x0, y0];
    const from = Math.max(x0, box.left);
    const upTo = Math.min(x1, box.right);
    for (let x = from; x <= upTo; x += step) {
      const y = x1 === x0 ? y0 : y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
      if (y > box.top && y < box.bottom) return true;
    }
    return false;
  });
}
