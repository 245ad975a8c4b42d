// The pictures of docs/reproduction.md, from bench/results. tools/docs.mjs writes them.
import { lineChart } from "../dist/simulator/index.js";

const TRACE = { synthetic: "synthetic trace", conversation: "conversation trace" };

/** Rows of one trace, as points. */
const points = (rows, x, y) =>
  rows.filter((row) => row[x] !== null && row[y] !== null).map((row) => [row[x], row[y]]);

const of = (rows, wanted) =>
  rows.filter((row) => Object.entries(wanted).every(([name, value]) => row[name] === value));

export function capacityChart({ rows }) {
  const traces = Object.keys(TRACE).flatMap((trace) => [
    { name: TRACE[trace], points: points(of(rows, { trace }), "tokens", "hit") },
    { name: "paper", marks: true, points: points(of(rows, { trace }), "tokens", "paper") },
  ]);
  return lineChart({
    ...{ title: "Hit rate by cache size", standalone: true, series: traces },
    x: { label: "tokens that one cache keeps", scale: "log" },
    y: { label: "of prompt tokens" },
  });
}

export function bandwidthChart({ rows }) {
  const own = of(rows, { trace: "synthetic" });
  const modes = ["estimated", "pool"].map((mode) => ({
    name: mode,
    points: points(of(own, { mode }), "gbps", "ttftS"),
  }));
  const paper = {
    name: "paper",
    marks: true,
    points: points(of(own, { mode: "pool" }), "gbps", "paperTtftS"),
  };
  return lineChart({
    ...{ title: "Time to the first token by bandwidth, synthetic trace", standalone: true },
    x: { label: "Gbps of each node" },
    y: { label: "mean, s (log)", scale: "log" },
    series: [...modes, paper],
  });
}

export function ratioChart({ rows }) {
  const traces = Object.keys(TRACE).map((trace) => ({
    name: TRACE[trace],
    points: points(of(rows, { trace }), "prefillNodes", "share"),
  }));
  const paper = of(rows, { trace: "synthetic" });
  const marks = { name: "paper", marks: true, points: points(paper, "prefillNodes", "paperShare") };
  return lineChart({
    ...{ title: "Requests within both deadlines by prefill nodes of 16", standalone: true },
    x: { label: "prefill nodes" },
    y: { label: "% of requests" },
    series: [...traces, marks],
  });
}

export function replicasChart({ rows }) {
  const [row] = of(rows, { trace: "conversation", estimatesTransfers: true });
  const { atS, ...ranks } = row.series;
  return lineChart({
    ...{ title: "Replicas of hot blocks on 8 prefill nodes, conversations", standalone: true },
    x: { label: "s since the start" },
    y: { label: "nodes that hold it" },
    series: Object.entries(ranks).map(([rank, counts]) => ({
      name: `rank ${rank}`,
      points: counts.map((count, at) => [atS[at], count]),
    })),
  });
}

/** Requests that decode, and the line of prompts, where decoding is looked at early. */
export function oscillationChart({ rows }, load, rejection) {
  const [row] = of(rows, { load, rejection });
  const { atS, queueS, decoding } = row.series;
  const over = (name, values) => ({ name, points: values.map((value, at) => [atS[at], value]) });
  return lineChart({
    ...{ title: `Both pools, rejection: ${rejection}`, standalone: true },
    x: { label: "s since the start" },
    y: { label: "mean node" },
    series: [over("requests in decode", decoding), over("s of prompts in line", queueS)],
  });
}
