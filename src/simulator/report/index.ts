/**
 * simulator/report: pictures of simulated runs.
 *
 *   pool-report.ts  a run of a fleet with pools as one HTML page
 *   line-chart.ts   lines over two axes as SVG; axis.ts: where values stand
 *   markup.ts       text that is safe in both
 *
 * Invariant: no script, no network; all text is escaped; the same result gives the same bytes.
 *
 * @module
 */
export { type ChartSeries, type LineChart, lineChart } from "./line-chart.ts";
export { poolReport, type ReportOptions } from "./pool-report.ts";
