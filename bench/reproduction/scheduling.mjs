/**
 * node bench/reproduction/scheduling.mjs [--prefill 6,8] [--nodes 16] [--seeds 1,2,3] [--out FILE]
 *
 * Figure 5 of Mooncake (FAST'25), and the order of figure 8 of arXiv 2407.00079: the time to the
 * first token by the policy that chooses the prefill node, on the conversation trace, on 16 nodes
 * of the paper's costs. The paper does not print how many of its nodes compute prompts.
 */
import { runTable } from "./runs.mjs";

const PAPER = { random: 19.65, load: 5.27, local: 3.58, global: 3.07 };

await runTable({
  name: "scheduling",
  options: { prefill: { type: "string", default: "6,8" }, nodes: { type: "number", default: 16 } },
  rows: ({ prefill, nodes }) =>
    prefill.split(",").flatMap((count) =>
      Object.keys(PAPER).map((policy) => ({
        row: { prefillNodes: Number(count), policy, paperTtftS: PAPER[policy] },
        pools: { prefillNodes: Number(count), decodeNodes: nodes - Number(count) },
        conductor: { policy, rejection: "none" },
      })),
    ),
});
