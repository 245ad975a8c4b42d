/**
 * Where the time of a watched run of requests went, step by step: joins the marks of the GPU's
 * stream, what the host did, and the engine's reports. All times are milliseconds since
 * `generate` was called.
 */
import { phasesBetween, piecesOf } from "./host-trace.mjs";

export const kinds = ["prompts only", "mixed", "decoding only"];
const gapsShown = 5;

/** What a step computed: tokens of prompts, and tokens that were drawn. */
export function kindOf({ tokens, promptTokens }) {
  if (promptTokens === 0) return "decoding only";
  return promptTokens >= tokens ? "prompts only" : "mixed";
}

/**
 * The whole run. `marks`: [{ label, ms }] of the GPU's clock, "zero" first and "end" last, which
 * the host's clock calls `zeroMs` and `endMs`; a step goes from "begin" over "layers done" to its
 * last "read". `reports`: [{ ms, tokens, sequences, promptTokens }], and `staged`: [{ tokens,
 * sequences }], one of each for every step. `spans` are the host's. `null` instead of marks where
 * the engine has a thread of its own.
 */
export function summarizeRun({ zeroMs, endMs, wallMs, marks, staged, spans, reports }) {
  const told = reports.map((report) => ({ ...report, ms: report.ms - zeroMs }));
  const clocks = { zeroMs, endMs, wallMs };
  const gpu = marks === null ? null : gpuTimes({ marks, staged, spans, told, ...clocks });
  return { wallMs, reports: reportTimes(told, wallMs), gpu };
}

function gpuTimes({ zeroMs, endMs, wallMs, marks, staged, spans, told }) {
  // Each clock has its own idea of a second.
  const gpuMs = marks.at(-1).ms;
  const pace = gpuMs > 0 ? (endMs - zeroMs) / gpuMs : 1;
  const host = piecesOf(spans).map(({ phase, start, end }) => ({
    ...{ phase, start: start - zeroMs, end: end - zeroMs },
  }));
  const bare = stepsOf(marks, pace).map((step, at) => ({ ...step, ...describe(told[at]) }));
  if (bare.length === 0) throw new Error("no step was seen");
  const steps = withGaps(bare, host);
  const [first, last] = [steps[0], steps.at(-1)];
  const inside = steps.filter(({ gapMs }) => gapMs !== null);
  return {
    ...{ pace, mismatch: mismatchOf(steps, staged, told) },
    before: { ms: first.start, phases: withOther(host, 0, first.start) },
    after: { ms: wallMs - last.end, phases: withOther(host, last.end, wallMs) },
    share: sum(steps, "gpuMs") / wallMs,
    kinds: byKind(steps, kindTimes),
    gaps: inside.toSorted((a, b) => b.gapMs - a.gapMs).slice(0, gapsShown),
    steps,
  };
}

/** What reports alone say, wherever the engine runs: when they came, and what came between. */
function reportTimes(reports, wallMs) {
  const between = reports.map((report, at) => ({
    ...{ number: at + 1, ...describe(report) },
    betweenMs: report.ms - (reports[at - 1]?.ms ?? 0),
  }));
  return {
    firstMs: reports[0]?.ms ?? null,
    afterLastMs: reports.length === 0 ? null : wallMs - reports.at(-1).ms,
    kinds: byKind(between, (rows) => ({ betweenMs: statistics(rows, "betweenMs") })),
  };
}

function describe(report) {
  if (report === undefined) return { kind: "unknown", tokens: 0, sequences: 0 };
  const { tokens, sequences } = report;
  return { kind: kindOf(report), tokens, sequences };
}

/** From each step's first kernel to its draw. */
function stepsOf(marks, pace) {
  const steps = [];
  for (const { label, ms } of marks) {
    const at = ms * pace;
    const current = steps.at(-1);
    if (label === "begin") {
      steps.push({ number: steps.length + 1, start: at, layersEnd: at, end: at });
    } else if (current !== undefined) {
      if (label === "layers done") current.layersEnd = at;
      if (label === "layers done" || label === "read") current.end = at;
    }
  }
  return steps;
}

/** Null where what the GPU ran, what the host staged and what the engine told are the same. */
function mismatchOf(steps, staged, reports) {
  const counts = [steps.length, staged.length, reports.length];
  if (new Set(counts).size > 1) {
    return `${counts[0]} steps of the GPU, ${counts[1]} staged, ${counts[2]} told`;
  }
  const at = staged.findIndex(
    ({ tokens, sequences }, i) =>
      tokens !== reports[i].tokens || sequences !== reports[i].sequences,
  );
  if (at < 0) return null;
  const [ran, said] = [staged[at].tokens, reports[at].tokens];
  return `step ${at + 1} was staged with ${ran} tokens, told with ${said}`;
}

/** A step's time goes up to the next one's start; the last one's up to its own end. */
function withGaps(steps, host) {
  return steps.map((step, at) => {
    const next = steps[at + 1]?.start ?? null;
    const { start, layersEnd, end } = step;
    return {
      ...step,
      ...{ gpuMs: end - start, headAndDrawMs: end - layersEnd },
      gapMs: next === null ? null : next - end,
      phases: withOther(host, start, next ?? end),
      gapPhases: next === null ? null : withOther(host, end, next),
    };
  });
}

function kindTimes(steps) {
  const inside = steps.filter(({ gapMs }) => gapMs !== null);
  const phases = {};
  for (const step of steps) {
    for (const [phase, ms] of Object.entries(step.phases)) {
      phases[phase] = (phases[phase] ?? 0) + ms / steps.length;
    }
  }
  return {
    gpuMs: statistics(steps, "gpuMs"),
    headAndDrawMs: statistics(steps, "headAndDrawMs"),
    gapMs: statistics(inside, "gapMs"),
    phases,
  };
}

/** A row for each kind of steps that there were. */
function byKind(steps, timesOf) {
  return [...kinds, "unknown"].flatMap((kind) => {
    const rows = steps.filter((step) => step.kind === kind);
    if (rows.length === 0) return [];
    return [{ kind, steps: rows.length, tokens: sum(rows, "tokens"), ...timesOf(rows) }];
  });
}

function statistics(rows, key) {
  if (rows.length === 0) return { mean: null, longest: null, sum: 0 };
  const total = sum(rows, key);
  const longest = rows.reduce((most, row) => Math.max(most, row[key]), Number.NEGATIVE_INFINITY);
  return { mean: total / rows.length, longest, sum: total };
}

/** What no phase explains is "other". */
function withOther(host, from, to) {
  const phases = phasesBetween(host, from, to);
  const known = Object.values(phases).reduce((total, ms) => total + ms, 0);
  return { ...phases, other: Math.max(0, to - from - known) };
}

function sum(rows, key) {
  return rows.reduce((total, row) => total + row[key], 0);
}
