/**
 * simulator/report: pictures of simulated runs.
 *
 *   pool-report.ts  a run of a fleet with pools as one HTML page
 *
 * Invariant: no script, no network; all text is escaped; the same result gives the same bytes.
 *
 * @module
 */
export { poolReport, type ReportOptions } from "./pool-report.ts";
