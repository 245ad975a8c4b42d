// Pictures of docs/fleet.md and of the designs: what travels between workers, and how fast.
import { machineText, matching, results } from "./results.mjs";

/** A kind of fleet, by what its workers do for each other. */
function fleetName({ transfer, memory }) {
  if (memory) return "with a worker of the role kv";
  return transfer ? "--kv-transfer" : "without transfers";
}

function pool({ rows, requests, machine }, title) {
  const label = (row) => `${row.policy}, ${fleetName(row)}`;
  return [
    {
      kind: "bars",
      title,
      subtitle: `one round of ${requests} requests; ${machineText(machine)}, beside other work`,
      series: ["p50", "p90"],
      unit: " ms",
      rows: rows.map((row) => ({ label: label(row), values: [row.ttftP50, row.ttftP90] })),
    },
    {
      kind: "bars",
      title: "Prompt tokens found in caches",
      unit: " %",
      series: ["found"],
      rows: rows.map((row) => ({ label: label(row), values: [100 * row.hitRate] })),
    },
  ];
}

const WAYS = {
  memcpy: "memcpy, one thread",
  memory: "shared memory",
  nixl: "NIXL, shared memory",
  tcp: "data connections",
  iperf3: "iperf3",
  mooncake: "Mooncake over TCP",
};
const PIECES = { 65536: "64 KiB", 1048576: "1 MiB", 16777216: "16 MiB" };

function transfer() {
  const { machine, results: rows } = results("transfer");
  return {
    kind: "lines",
    title: "GB/s between two processes, by the size of a piece",
    subtitle: `256 MiB, medians of 7 alternated runs, 4 connections; ${machineText(machine)}`,
    x: { label: "piece", names: rows.map(({ pieceBytes }) => PIECES[pieceBytes]) },
    y: { label: "GB/s" },
    series: Object.entries(WAYS).map(([key, name]) => ({
      name,
      points: rows.map(({ gbPerSecond }, at) => [at, gbPerSecond[key]]),
    })),
  };
}

function stages() {
  const { rows, date } = results("gpu-pipeline-prefill");
  const counts = [1, 2];
  const tokens = [...new Set(rows.map((row) => row.tokens))];
  return {
    kind: "bars",
    title: "Time to the first token, by stages",
    subtitle: `Llama-3.1-8B's shape, bfloat16, a stage is one H100; medians of three, ${date}`,
    unit: " ms",
    series: counts.map((count) => `${count} stage${count > 1 ? "s" : ""}`),
    rows: tokens.map((length) => ({
      label: `${length.toLocaleString("en-US")} tokens`,
      values: counts.map(
        (count) => matching(rows, { stages: count, tokens: length })[0].firstTokenMs,
      ),
    })),
  };
}

/** The index of all caches by the fleet's size, beside Dynamo's. */
function fleetIndex() {
  const { rows } = results("fleet-index");
  const bars = (title, unit, series) => ({
    ...{ kind: "bars", title, unit, series: Object.keys(series) },
    rows: rows.map((row) => ({
      label: `${row.workers.toLocaleString("en-US")} workers`,
      values: Object.values(series).map((of) => of(row)),
    })),
  });
  return [
    {
      ...bars("Million blocks stored, removed and looked up a second of processor time", "", {
        ours: (row) => row.millionOperations,
        "Dynamo's RadixTree 1.6.1": (row) => row.peerMillionOperations,
      }),
      subtitle: "one million blocks of workers; 2 cores of an Intel Xeon, beside other work",
    },
    bars("Look-up of 100 blocks", " µs", {
      "ours, p50": (row) => row.lookUpUs.p50,
      "ours, p99": (row) => row.lookUpUs.p99,
      "Dynamo's, p50": (row) => row.peerLookUpUs.p50,
      "Dynamo's, p99": (row) => row.peerLookUpUs.p99,
    }),
  ];
}

export function fleetPictures() {
  const [three, eight] = results("kv-pool").reports;
  return [
    [
      "fleet/transfers.svg",
      pool(three, "Time to the first token, prefixes of three times a worker's memory"),
    ],
    [
      "fleet/memory.svg",
      pool(eight, "Time to the first token, prefixes of eight times a worker's memory"),
    ],
    ["design/transfer.svg", [transfer()]],
    ["design/pipeline.svg", [stages()]],
    ["design/fleet-index.svg", fleetIndex()],
  ];
}
