/** Colours of charts, light and dark, as GitHub's pages have them: each stands out by 4.5 to 1. */

/** [light, dark] of each series. */
const SERIES: readonly (readonly [string, string])[] = [
  ["#0969da", "#4493f8"],
  ["#9a6700", "#d29922"],
  ["#1a7f37", "#3fb950"],
  ["#8250df", "#ab7df8"],
  ["#bf3989", "#f778ba"],
  ["#59636e", "#9198a1"],
];

/** Series with colours of their own; further ones have them again, with broken lines. */
export const SERIES_COLOURS = SERIES.length;

const TEXT = ["#1f2328", "#f0f6fc"] as const;
const QUIET = ["#59636e", "#9198a1"] as const;
const GRID = ["#d1d9e0", "#3d444d"] as const;
const PAGE = ["#ffffff", "#0d1117"] as const;

/** Of pages that hold charts, and of files that are one. */
export const CHART_STYLE = `.chart text{font-family:system-ui,sans-serif;font-size:12px}
.chart .heading{font-size:14px;font-weight:600}.chart .small{font-size:11px}
.chart .grid,.chart .limit,.chart .line,.chart .lead{fill:none}
.chart .line{stroke-width:1.8;stroke-linejoin:round}.chart .limit{stroke-dasharray:3 3}
.chart .over{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}
.chart .broken{stroke-dasharray:6 3}.chart .lead{stroke-width:1;opacity:.6}
${colours(0)}
@media (prefers-color-scheme:dark){${colours(1)}}`;

/** `f0` fills with the first series' colour, `s0` draws lines with it. */
function colours(theme: 0 | 1): string {
  const series = SERIES.map(
    (pair, place) =>
      `.chart .f${place}{fill:${pair[theme]}}.chart .s${place}{stroke:${pair[theme]}}`,
  );
  return [
    `.chart text{fill:${TEXT[theme]}}.chart .quiet{fill:${QUIET[theme]}}`,
    `.chart .grid{stroke:${GRID[theme]}}.chart .limit{stroke:${QUIET[theme]}}`,
    `.chart .page{fill:${PAGE[theme]}}.chart .over{stroke:${PAGE[theme]}}`,
    ...series,
  ].join("\n");
}
