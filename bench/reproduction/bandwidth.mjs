/**
 * node bench/reproduction/bandwidth.mjs [--prefill 8] [--decode 8] [--seeds 1,2,3]
 *   [--modes estimated,threshold,pool] [--traces synthetic,conversation] [--out FILE]
 *
 * Figure 13 of Mooncake (FAST'25): the time to the first token by the network's speed, where
 * prefixes move by estimate (`estimated`: only where that is quicker than computing), by the ratio
 * alone (`threshold`: Algorithm 1 as it is printed), and where each found prefix travels, since
 * blocks lie anywhere in the pool (`pool`). Without a speed nothing moves. The paper's numbers,
 * read off the figure, are of its synthetic trace.
 */
import { runTable } from "./runs.mjs";

const PAPER = { 24: 5.09, 40: 2.4, 80: 1.73, 100: 1.6, 160: 1.41, 320: 1.25, 400: 1.25 };
const PAPER_TRANSFER_S = { 24: 3.65, 40: 1.13, 80: 0.51, 100: 0.4, 160: 0.25, 320: 0.13, 400: 0.1 };
const BYTES_PER_MS = 1e9 / 8 / 1000;

const MODES = {
  estimated: { conductor: {}, pools: {} },
  threshold: { conductor: { estimatesTransfers: false }, pools: {} },
  pool: { conductor: { estimatesTransfers: false }, pools: { cachePlace: "pool" } },
};

await runTable({
  name: "bandwidth",
  traces: "synthetic,conversation",
  options: {
    prefill: { type: "number", default: 8 },
    decode: { type: "number", default: 8 },
    modes: { type: "string", default: Object.keys(MODES).join(",") },
  },
  rows: ({ prefill, decode, modes }) => {
    const nodes = { prefillNodes: prefill, decodeNodes: decode };
    const nothing = {
      row: { gbps: null, mode: "nothing moves", paperTtftS: 2.62 },
      ...{ pools: nodes, conductor: { policy: "local", rejection: "none" } },
    };
    const rows = modes.split(",").flatMap((mode) =>
      Object.entries(PAPER).map(([gbps, paperTtftS]) => ({
        row: { gbps: Number(gbps), mode, paperTtftS, paperTransferS: PAPER_TRANSFER_S[gbps] },
        pools: { ...nodes, ...MODES[mode].pools },
        costs: { networkBytesPerMs: Number(gbps) * BYTES_PER_MS },
        conductor: { rejection: "none", ...MODES[mode].conductor },
      })),
    );
    return [nothing, ...rows];
  },
  summary: ({ ttftMs, hitRate, fetchedTokens, fetchMs }) => ({
    ttftS: ttftMs.mean / 1000,
    hitRate,
    fetchedMTokens: fetchedTokens / 1e6,
    fetchS: fetchMs / 1000,
  }),
});
