// Pictures of docs/reproduction.md: papers' figures again, beside the papers' numbers.
import { fixed, matching, only, points, results } from "./results.mjs";

const TRACE = { synthetic: "synthetic trace", conversation: "conversations" };
const POLICIES = ["random", "load", "local", "global"];

/** Mean times to the first token by policy and split, beside the paper's. */
function scheduling() {
  const { rows } = results("reproduction-scheduling");
  const splits = [6, 7, 8];
  const paper = (policy) => matching(rows, { policy })[0].paperTtftS;
  return {
    kind: "bars",
    title: "Mean time to the first token, by policy and prefill nodes of 16",
    unit: " s",
    series: [...splits.map((nodes) => `ours, ${nodes} prefill nodes`), "paper"],
    rows: POLICIES.map((policy) => {
      const ours = splits.map((prefillNodes) => only(rows, { policy, prefillNodes }).ttftS);
      const values = [...ours, paper(policy)];
      return { label: policy, values, texts: values.map((value) => `${fixed(value, 2)} s`) };
    }),
  };
}

function capacity() {
  const { rows } = results("reproduction-capacity");
  return {
    kind: "lines",
    title: "Hit rate by cache size",
    x: { label: "tokens that one cache keeps (log)", scale: "log" },
    y: { label: "of prompt tokens" },
    series: Object.keys(TRACE).flatMap((trace, at) => [
      { name: TRACE[trace], points: points(matching(rows, { trace }), "tokens", "hit") },
      {
        ...{ name: `paper, ${TRACE[trace]}`, marks: true, like: 2 * at },
        points: points(matching(rows, { trace }), "tokens", "paper"),
      },
    ]),
  };
}

/** Where requests go, what is found, and how long prompts take. */
function cache() {
  const { rows } = results("reproduction-cache");
  const bars = (title, unit, [paper, ours], digits) => ({
    ...{ kind: "bars", title, series: ["ours", "paper"] },
    rows: rows.map((row) => {
      const values = [row[ours], row[paper]];
      const texts = values.map((value) => `${fixed(value, digits)}${unit}`);
      return { label: `${TRACE[row.trace]}, by ${row.policy}`, values, texts };
    }),
  });
  return [
    bars("Prompt tokens found, 10 prefill nodes of 3 M tokens", " %", ["paperHit", "hit"], 1),
    bars("Time of a prompt", " s", ["paperPrefillS", "prefillS"], 2),
  ];
}

function bandwidth() {
  const own = matching(results("reproduction-bandwidth").rows, { trace: "synthetic" });
  const of = (mode, value) => points(matching(own, { mode }), "gbps", value);
  return {
    kind: "lines",
    title: "Time to the first token by bandwidth, synthetic trace",
    x: { label: "Gbps of each node" },
    y: { label: "mean, s (log)", scale: "log" },
    series: [
      { name: "estimated", points: of("estimated", "ttftS") },
      { name: "pool", points: of("pool", "ttftS") },
      { name: "paper", marks: true, points: of("pool", "paperTtftS") },
    ],
  };
}

function ratio() {
  const { rows } = results("reproduction-ratio");
  const paper = points(matching(rows, { trace: "synthetic" }), "prefillNodes", "paperShare");
  return {
    kind: "lines",
    title: "Requests within both deadlines by prefill nodes of 16",
    x: { label: "prefill nodes" },
    y: { label: "% of requests" },
    series: [
      ...Object.keys(TRACE).map((trace) => ({
        name: TRACE[trace],
        points: points(matching(rows, { trace }), "prefillNodes", "share"),
      })),
      { name: "paper", marks: true, points: paper },
    ],
  };
}

function replicas() {
  const [row] = matching(results("reproduction-replicas").rows, {
    ...{ trace: "conversation", estimatesTransfers: true },
  });
  const { atS, ...ranks } = row.series;
  return {
    kind: "lines",
    title: "Replicas of hot blocks on 8 prefill nodes, conversations",
    x: { label: "s since the start" },
    y: { label: "nodes that hold it" },
    series: Object.entries(ranks).map(([rank, counts]) => ({
      name: `rank ${rank}`,
      points: counts.map((count, at) => [atS[at], count]),
    })),
  };
}

/** Apart or together: how many requests keep their deadline between tokens. */
function coupled() {
  const { rows } = results("reproduction-coupled");
  return ["conversation", "synthetic"].map((trace) => ({
    kind: "bars",
    title: `Requests within 100 ms between tokens, ${TRACE[trace]}`,
    series: ["ours", "paper"],
    rows: matching(rows, { trace }).map(({ serving, paper, within100 }) => {
      const values = [within100, paper === null ? null : paper[0]];
      return { label: serving, values, texts: values.map((value) => `${fixed(value ?? 0, 1)} %`) };
    }),
  }));
}

/** Requests that decode, and the line of prompts, where decoding is looked at early. */
function pools(rejection) {
  const { series } = only(results("reproduction-rejection").rows, {
    load: "5+2@2.5@60",
    rejection,
  });
  const over = (name, values) => ({
    name,
    points: values.map((value, at) => [series.atS[at], value]),
  });
  return {
    kind: "lines",
    title: `Both pools, rejection: ${rejection}`,
    x: { label: "s since the start" },
    y: { label: "mean node" },
    series: [
      over("requests in decode", series.decoding),
      over("s of prompts in line", series.queueS),
    ],
  };
}

function rejected() {
  const { rows } = results("reproduction-rejection");
  const loads = [...new Set(rows.map(({ load }) => load))];
  const kinds = ["late", "arrival", "predicted"];
  return {
    kind: "bars",
    title: "Rejected requests, by load (nodes @ speed @ TBT)",
    subtitle: "conversations, means of seeds 1 and 2",
    series: kinds,
    rows: loads.map((load) => ({
      label: load,
      values: kinds.map((rejection) => Math.floor(only(rows, { load, rejection }).rejected)),
    })),
  };
}

const SERVERS = {
  static: "FasterTransformer",
  max: "Orca, Max",
  pow2: "Orca, Pow2",
  oracle: "Orca, Oracle",
  paged: "paged (paper: vLLM)",
};

const MIXES = { shareGpt: "ShareGPT", alpaca: "Alpaca" };

/** Requests a second by how memory is given out. */
function paged() {
  const { rows } = results("reproduction-paged");
  return Object.entries(MIXES).map(([mix, name]) => ({
    kind: "bars",
    title: `Requests a second within 0.25 s a token, ${name}`,
    series: ["ours", "paper"],
    rows: Object.entries(SERVERS).map(([server, label]) => {
      const { perSecond, paperPerSecond } = only(rows, { mix, server, beams: 1 });
      return { label, values: [perSecond, paperPerSecond] };
    }),
  }));
}

function roleChanges() {
  const { rows } = results("reproduction-role-changes");
  const cases = {
    best: "best split, fixed",
    fromBest: "automatic from the best",
    worst: "worst split, fixed",
    fromWorst: "automatic from the worst",
  };
  return {
    kind: "bars",
    title: "Requests within both deadlines, by load and roles",
    subtitle: "TTFT of 30 s, TBT of 100 ms, seed 1",
    series: Object.values(cases),
    rows: rows.map((row) => {
      const values = Object.keys(cases).map((name) => row[name].goodput);
      return { label: row.load, values, texts: values.map((value) => fixed(value, 3)) };
    }),
  };
}

function rule() {
  const { rows } = results("reproduction-rule");
  const nodes = ["8 x A800", "8 x H800", "fitted costs"];
  const of = (node, value) => points(matching(rows, { node }), "prefix", value);
  return {
    kind: "lines",
    title: "Bandwidth from which loading a prefix beats computing it",
    x: { label: "tokens of the prefix (log)", scale: "log" },
    y: { label: "GB/s" },
    series: [
      ...nodes.map((node) => ({ name: node, points: of(node, "gbPerS") })),
      ...nodes.flatMap((node, like) => {
        const marks = of(node, "paperGbPerS");
        return marks.length === 0
          ? []
          : [{ name: `paper, ${node}`, marks: true, like, points: marks }];
      }),
    ],
  };
}

function scale() {
  const rows = results("reproduction-scale").rows.filter(({ load }) => load !== "hour");
  return {
    kind: "lines",
    title: "Processor time of a simulated load, 128 workers",
    x: { label: "requests (log)", scale: "log" },
    y: { label: "CPU s (log)", scale: "log" },
    series: [
      { name: "128 workers", points: points(matching(rows, { workers: 128 }), "requests", "cpuS") },
    ],
  };
}

/** Running requests by how memory is given out, and what samples and beams share. */
function memory() {
  const { mixes, paper } = results("waste");
  const names = { max: "Max", pow2: "Pow2", oracle: "Oracle", paged: "paged" };
  return mixes.map(({ mix, rows }) => ({
    kind: "bars",
    title: `Requests that run in 15,700 slots, ${MIXES[mix]}`,
    series: ["ours", "paper"],
    rows: Object.entries(names).map(([name, label]) => {
      const row = rows.filter((one) => one.name === name && (one.blockTokens ?? 16) === 16);
      return { label, values: [row[0].running, paper.running[mix][name]] };
    }),
  }));
}

export function reproductionPictures() {
  const folder = (name, charts) => [`reproduction/${name}.svg`, charts];
  return [
    folder("scheduling", [scheduling()]),
    folder("capacity", [capacity()]),
    folder("cache", cache()),
    folder("replicas", [replicas()]),
    folder("bandwidth", [bandwidth()]),
    folder("ratio", [ratio()]),
    folder("coupled", coupled()),
    folder("rejected", [rejected()]),
    folder("pools-arrival", [pools("arrival")]),
    folder("pools-predicted", [pools("predicted")]),
    folder("rule", [rule()]),
    folder("paged", paged()),
    folder("role-changes", [roleChanges()]),
    folder("memory", memory()),
    folder("scale", [scale()]),
  ];
}
