/**
 * node bench/reproduction/replicas.mjs [--prefill 8] [--decode 8] [--seeds 1,2,3]
 *   [--traces conversation,synthetic] [--out FILE]
 *
 * Figure 11 of Mooncake (FAST'25): on how many of 8 prefill nodes the blocks lie that are asked
 * for most, over time. In the paper the 10th key has 8 replicas after some 1,100 s on
 * conversations; on its synthetic trace 5. `series` are of the first seed.
 */
import { HOT_RANKS } from "../../dist/simulator/index.js";
import { runTable } from "./runs.mjs";

/** Points of a series: enough for a picture. */
const POINTS = 60;

await runTable({
  name: "replicas",
  traces: "conversation,synthetic",
  options: {
    prefill: { type: "number", default: 8 },
    decode: { type: "number", default: 8 },
  },
  rows: ({ prefill, decode }) =>
    [true, false].map((estimatesTransfers) => ({
      row: { estimatesTransfers },
      pools: { prefillNodes: prefill, decodeNodes: decode },
      conductor: { rejection: "none", estimatesTransfers },
    })),
  summary: ({ loads }) =>
    Object.fromEntries(
      HOT_RANKS.flatMap((rank, place) => {
        const most = Math.max(...loads.map(({ replicas }) => replicas[place]));
        const first = loads.find(({ replicas }) => replicas[place] === most);
        return [
          [`most${rank}`, most],
          [`reachedS${rank}`, first.atMs / 1000],
        ];
      }),
    ),
  after: ([first]) => {
    const step = Math.max(1, Math.floor(first.loads.length / POINTS));
    const kept = first.loads.filter((_, at) => at % step === 0);
    return {
      series: {
        atS: kept.map(({ atMs }) => Math.round(atMs / 1000)),
        ...Object.fromEntries(
          HOT_RANKS.map((rank, place) => [rank, kept.map(({ replicas }) => replicas[place])]),
        ),
      },
    };
  },
});
