/** Runs of requests as tables for people. */
import { decimals, textTable } from "./text-table.mjs";

/** What the host may be doing, in the order in which it does it; "other": none of these. */
const phases = [
  ...["add", "plan", "build", "stage", "forward", "head", "draw"],
  ...["wait", "commit", "deliver", "gc", "other"],
];

/** One run: `title`, then all that its summary has. */
export function runText(title, { wallMs, reports, gpu }) {
  return [
    `\n${title}: ${wallMs.toFixed(1)} ms`,
    `first step told after ${decimals(reports.firstMs)} ms, ` +
      `all over ${decimals(reports.afterLastMs)} ms after the last one was`,
    textTable(reportColumns, reports.kinds),
    ...(gpu === null ? [] : gpuLines(gpu)),
  ].join("\n");
}

function gpuLines({ before, after, share, kinds, gaps, mismatch }) {
  const ends = [
    { kind: "before the first step", ...before },
    { kind: "after the last step", ...after },
  ];
  return [
    `\nGPU began after ${decimals(before.ms)} ms, was done ${decimals(after.ms)} ms before the ` +
      `end, worked ${(100 * share).toFixed(2)} % of the time`,
    textTable(kindColumns, kinds),
    "\nthe host meanwhile: ms in a step, up to the next one's start",
    textTable(hostColumns, [...kinds, ...ends]),
    "\nlongest gaps: behind which step, and the host's us in it",
    textTable(gapColumns, gaps),
    ...(mismatch === null ? [] : [`Kinds may be wrong: ${mismatch}`]),
  ];
}

const countColumns = [
  { title: "kind", left: true, of: ({ kind }) => kind },
  { title: "steps", of: ({ steps }) => steps },
  { title: "tokens", of: ({ tokens }) => tokens },
];

const reportColumns = [
  ...countColumns,
  { title: "ms from report to report", of: ({ betweenMs }) => betweenMs.mean },
  { title: "longest", of: ({ betweenMs }) => betweenMs.longest },
  { title: "sum", of: ({ betweenMs }) => betweenMs.sum },
];

const kindColumns = [
  ...countColumns,
  { title: "GPU ms", of: ({ gpuMs }) => gpuMs.mean },
  { title: "of it head, draw", of: ({ headAndDrawMs }) => headAndDrawMs.mean },
  { title: "sum", of: ({ gpuMs }) => gpuMs.sum },
  { title: "gap us", of: ({ gapMs }) => micros(gapMs.mean) },
  { title: "longest", of: ({ gapMs }) => micros(gapMs.longest) },
  { title: "sum ms", of: ({ gapMs }) => gapMs.sum },
];

const hostColumns = [
  countColumns[0],
  ...phases.map((phase) => ({ title: phase, of: (row) => row.phases[phase] ?? 0 })),
];

const gapColumns = [
  { title: "step", of: ({ number }) => number },
  ...countColumns.filter(({ title }) => title !== "steps"),
  { title: "gap us", of: ({ gapMs }) => micros(gapMs) },
  ...phases.map((phase) => ({
    title: phase,
    of: ({ gapPhases }) => micros(gapPhases[phase] ?? 0),
  })),
];

function micros(ms) {
  return ms === null ? null : ms * 1000;
}
