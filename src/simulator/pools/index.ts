/**
 * simulator/pools: a fleet that computes prompts and decodes on different nodes.
 *
 *   pool-sim.ts      a trace through conductor, index and nodes; pool-stats.ts, pool-result.ts
 *   prefill-node.ts  a node that computes prompts; decode-node.ts: one that decodes;
 *                    step-loop.ts: the turn of their steps
 *   network.ts       transfers between them
 *   fleet-config.ts  a fleet as a file describes it
 *   node-costs.ts    what steps take: the paper's, or those of a cost model
 *
 * Invariant: conductor, index, schedulers and caches are those of production; only the times of
 * steps and transfers are made up.
 *
 * @module
 */

export { FleetConfig, parseFleet } from "./fleet-config.ts";
export { costsOf, type NodeCosts, PAPER_COSTS } from "./node-costs.ts";
export type { LoadSample, PoolResult, TimeSpread } from "./pool-result.ts";
export { type PoolOptions, runPools } from "./pool-sim.ts";
