// Pictures of docs/replay.md: hit rates by pool size and eviction policy.
import { replayCharts } from "../../dist/cli/plot/replay-plot.js";
import { machineText, results } from "./results.mjs";

/** Rows of the page's second table, by the name of a result. */
const MIXED = {
  priorities: "priority",
  raisedOnly: "priority, system prompts only",
  lru: "lru",
  lfu: "lfu",
  lengthAware: "length-aware",
  worthlessHeadTrue: "true-priority, heads of priority 0",
};

export function replayPictures() {
  const conversation = results("replay-conversation");
  const { machine, mixed } = results("eviction");
  const bounded = mixed.blockHitRates.filter(({ capacityBlocks }) => capacityBlocks !== null);
  const requests = mixed.requests.toLocaleString("en-US");
  const [endless] = mixed.blockHitRates.filter(({ capacityBlocks }) => capacityBlocks === null);
  return [
    [
      "replay/conversation.svg",
      replayCharts(conversation.rows, { trace: "conversation_trace.jsonl" }),
    ],
    [
      "replay/mixed.svg",
      [
        {
          kind: "lines",
          title: "Block hit rate on the mixed workload, by pool size",
          subtitle: `${requests} requests, seed 1; ${machineText(machine)}`,
          x: { label: "blocks of the pool" },
          y: { label: "of all blocks" },
          limits: [{ axis: "y", value: endless.lru, name: "without bound" }],
          series: Object.entries(MIXED).map(([key, name]) => ({
            name,
            points: bounded.map((row) => [row.capacityBlocks, row[key]]),
          })),
        },
      ],
    ],
  ];
}
