/**
 * node bench/reproduction/cache.mjs [--prefill 10] [--seeds 1,2,3]
 *   [--traces synthetic,conversation] [--out FILE]
 *
 * Figure 10 of Mooncake (FAST'25): hit rate and prefill time of a global cache against local ones,
 * on 10 prefill nodes with 3 M tokens each; outputs have one token. The paper does not say how its
 * requests are spread over local caches: by load alone (`load`), and by what each node has
 * (`local`), are the two ends.
 */
import { runTable } from "./runs.mjs";

const PAPER = {
  conversation: { local: [16.9, 1.38], global: [37.5, 1.05] },
  synthetic: { local: [26.4, 1.5], global: [62.2, 0.78] },
};

await runTable({
  name: "cache",
  traces: "synthetic,conversation",
  options: { prefill: { type: "number", default: 10 } },
  rows: ({ prefill, trace }) =>
    ["load", "local", "global"].map((policy) => {
      const [paperHit, paperPrefillS] = PAPER[trace][policy === "global" ? "global" : "local"];
      return {
        row: { policy, paperHit, paperPrefillS },
        pools: { prefillNodes: prefill, decodeNodes: 1 },
        conductor: { policy, rejection: "none" },
        change: (whole) => ({
          ...whole,
          requests: whole.requests.map((request) => ({ ...request, outputTokens: 1 })),
        }),
      };
    }),
  summary: ({ hitRate, prefillMs, requests }) => ({
    hit: 100 * hitRate,
    // Of all nodes, for one request.
    prefillS: prefillMs / requests / 1000,
  }),
});
