/**
 * node bench/reproduction/ratio.mjs [--prefill 5,6,7,8,9,10,11] [--nodes 16] [--seeds 1,2,3]
 *   [--traces synthetic,conversation] [--out FILE]
 *
 * Figure 15 of Mooncake (FAST'25): requests within both deadlines (TTFT <= 10 s, TBT <= 100 ms) by
 * how many of 16 nodes compute prompts. The paper's numbers, read off the figure, are of its
 * synthetic trace.
 */
import { runTable } from "./runs.mjs";

const PAPER = {
  5: { share: 77.7, ttftS: 5.74, tbtMs: 31.5 },
  6: { share: 97.2, ttftS: 1.71, tbtMs: 31.8 },
  7: { share: 99.1, ttftS: 1.3, tbtMs: 32.9 },
  8: { share: 99.0, ttftS: 1.19, tbtMs: 35.0 },
  9: { share: 99.2, ttftS: 1.12, tbtMs: 38.2 },
  10: { share: 98.4, ttftS: 1.11, tbtMs: 44.2 },
  11: { share: 86.1, ttftS: 1.14, tbtMs: 58.3 },
};

await runTable({
  name: "ratio",
  traces: "synthetic,conversation",
  options: {
    prefill: { type: "string", default: Object.keys(PAPER).join(",") },
    nodes: { type: "number", default: 16 },
  },
  rows: ({ prefill, nodes }) =>
    prefill.split(",").map((count) => {
      const prefillNodes = Number(count);
      const { share: paperShare, ttftS: paperTtftS, tbtMs: paperTbtMs } = PAPER[count] ?? {};
      return {
        row: {
          prefillNodes,
          decodeNodes: nodes - prefillNodes,
          paperShare,
          paperTtftS,
          paperTbtMs,
        },
        pools: { prefillNodes, decodeNodes: nodes - prefillNodes },
        conductor: { rejection: "none", ttftDeadlineMs: 10_000, tbtDeadlineMs: 100 },
      };
    }),
  summary: ({ goodput, ttftMs, tbtTailMs, prefillBusy, decodeBusy }) => ({
    share: 100 * goodput,
    ttftS: ttftMs.mean / 1000,
    tbtMs: tbtTailMs.mean,
    ...{ prefillBusy, decodeBusy },
  }),
});
