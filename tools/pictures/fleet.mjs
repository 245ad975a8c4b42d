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
  ];
}
