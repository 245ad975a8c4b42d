/**
 * simulator/pools: a fleet that computes prompts and decodes on different nodes.
 *
 *   pool-sim.ts      a trace through conductor, index and nodes; pool-options.ts, pool-trace.ts;
 *                    pool-stats.ts, pool-result.ts, token-gaps.ts, request-row.ts: what comes of it
 *   pool-nodes.ts    all nodes of a fleet; node-points.ts: as measured before they serve
 *   prefill-node.ts  a node that computes prompts; decode-node.ts: one that decodes;
 *                    coupled-node.ts: one that does both; step-loop.ts: the turn of their steps
 *   prefill-line.ts  the order of a node's prompts while their prefixes travel
 *   hot-blocks.ts    how many nodes hold the blocks that are asked for most
 *   role-shifts.ts   nodes that change pools when the load shifts
 *   network.ts       transfers between them
 *   fleet-config.ts  a fleet as a file describes it
 *   node-costs.ts    what steps take: the paper's, or those of a cost model
 *
 * Invariant: conductor, index, schedulers and caches are those of production; only the times of
 * steps and transfers are made up.
 *
 * @module
 */

export type { CoupledRules } from "./coupled-node.ts";
export { FleetConfig, parseFleet } from "./fleet-config.ts";
export { HOT_RANKS } from "./hot-blocks.ts";
export { costsOf, type NodeCosts, PAPER_COSTS } from "./node-costs.ts";
export { CACHE_PLACES, type CachePlace, type PoolOptions } from "./pool-options.ts";
export type { LoadSample, PoolResult, SimRoleChange, TimeSpread } from "./pool-result.ts";
export { runPools } from "./pool-sim.ts";
export type { PoolRequestRow } from "./request-row.ts";
export { stagedPromptMs } from "./stage-times.ts";
