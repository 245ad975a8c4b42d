/**
 * charts: pictures of numbers as SVG, without a DOM, a font or a script.
 *
 * One chart is data: what is drawn and what it is called. The same data gives the same bytes, so
 * that a script can tell whether a picture in the documents is out of date.
 *
 *   chart.ts        what a chart says: lines over two axes, or bars; bounds.ts: how much of it
 *   picture.ts      charts below each other as a file, or one inside of a page
 *   line-chart.ts   lines and marks; line-ends.ts: names beside the ends of lines;
 *                   limit-lines.ts: values that matter
 *   bar-chart.ts    rows of bars with their values
 *   axis.ts         where values stand, and which of them are written
 *   drawn.ts        pieces that both kinds share: headings, legends, texts
 *   style.ts        colours, light and dark
 *   markup.ts       any text as text of SVG and HTML; text-width.ts: how much room it takes
 *
 * Invariant: no script, nothing that is fetched; all text is escaped.
 * Invariant: bounded: of many points, series and rows those are drawn that can be seen.
 *
 * @module
 */
export type {
  AxisText,
  BarChart,
  BarRow,
  Chart,
  ChartLimit,
  ChartSeries,
  LineChart,
  PlaceText,
} from "./chart.ts";
export { escaped } from "./markup.ts";
export { inlineChart, type PictureText, picture } from "./picture.ts";
export { CHART_STYLE } from "./style.ts";
