/**
 * node bench/reproduction/bandwidth.mjs [--prefill 8] [--decode 8] [--seeds 1] [--out FILE]
 *
 * Figure 13 of Mooncake (FAST'25): the time to the first token by the network's speed, and where
 * no prefix moves (`local`). The paper's numbers, read off the figure, are of its synthetic trace,
 * which is not at hand: ours are of conversations, and shapes can be compared, not seconds.
 */
import { runTable } from "./runs.mjs";

const PAPER = { 24: 5.09, 40: 2.4, 80: 1.73, 100: 1.6, 160: 1.41, 320: 1.25, 400: 1.25 };
const BYTES_PER_MS = 1e9 / 8 / 1000;

await runTable({
  name: "bandwidth",
  options: {
    prefill: { type: "number", default: 8 },
    decode: { type: "number", default: 8 },
  },
  rows: ({ prefill, decode }) => {
    const pools = { prefillNodes: prefill, decodeNodes: decode };
    const rows = Object.entries(PAPER).map(([gbps, paperTtftS]) => ({
      row: { gbps: Number(gbps), policy: "global", paperTtftS },
      ...{ pools, costs: { networkBytesPerMs: Number(gbps) * BYTES_PER_MS } },
      conductor: { rejection: "none" },
    }));
    const local = { policy: "local", rejection: "none" };
    return [{ row: { gbps: null, ...local, paperTtftS: 2.62 }, pools, conductor: local }, ...rows];
  },
  after: (results) => ({
    fetchedMTokens: Number((results[0].fetchedTokens / 1e6).toFixed(2)),
  }),
});
