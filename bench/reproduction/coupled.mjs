/**
 * node bench/reproduction/coupled.mjs [--prefill 8] [--nodes 16] [--seeds 1,2,3]
 *   [--traces conversation,synthetic] [--out FILE]
 *
 * Figures 6 and 7 of Mooncake (FAST'25): the share of requests whose TBT (the mean of their longest
 * tenth of gaps) is within 100, 200 and 300 ms, on 16 nodes: prefill and decode apart, and coupled
 * as vLLM does both: whole prompts in a step (without and with its prefix cache), and chunks. The
 * paper's numbers are read off its figures. TTFT <= 30 s.
 */
import { runTable } from "./runs.mjs";

const PAPER = {
  conversation: {
    apart: [96.6, 100, 100],
    whole: [16.1, 38.8, 62.8],
    "whole, prefixes": [15.1, 34.4, 56.0],
    "chunks of 512": [9.4, 28.8, 55.4],
  },
  synthetic: {
    apart: [99.6, 100, 100],
    whole: [61.3, 70.9, 78.0],
    "whole, prefixes": [61.0, 70.8, 77.2],
    "chunks of 512": [46.5, 57.3, 69.5],
  },
};

const rules = (stepTokens, chunkedPrefill, prefixCaching) => ({
  stepTokens,
  chunkedPrefill,
  prefixCaching,
});
/** vLLM 0.5.1 computes 512 tokens a step by default where it chunks, without its prefix cache. */
const COUPLED = {
  whole: rules(2048, false, false),
  "whole, prefixes": rules(2048, false, true),
  "chunks of 512": rules(512, true, false),
  "chunks of 512, prefixes": rules(512, true, true),
  "chunks of 2048, prefixes": rules(2048, true, true),
};

await runTable({
  name: "coupled",
  traces: "conversation,synthetic",
  options: { prefill: { type: "number", default: 8 }, nodes: { type: "number", default: 16 } },
  rows: ({ prefill, nodes, trace }) => {
    const deadlines = { rejection: "none", ttftDeadlineMs: 30_000, tbtDeadlineMs: 200 };
    const apart = {
      row: { serving: "apart", paper: PAPER[trace].apart },
      pools: { prefillNodes: prefill, decodeNodes: nodes - prefill },
      conductor: deadlines,
    };
    const coupled = Object.entries(COUPLED).map(([serving, coupled]) => ({
      row: { serving, paper: PAPER[trace][serving] ?? null },
      pools: { coupledNodes: nodes, coupled },
      conductor: { ...deadlines, policy: "load" },
    }));
    return [apart, ...coupled];
  },
  summary: ({ ttftMs, tbtWithin, goodput, hitRate, tbtTailMs }) => ({
    within100: 100 * tbtWithin[100],
    within200: 100 * tbtWithin[200],
    within300: 100 * tbtWithin[300],
    both200: 100 * goodput,
    tbtTailMs: tbtTailMs.mean,
    ttftS: ttftMs.mean / 1000,
    hitRate,
  }),
});
