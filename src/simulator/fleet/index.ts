/**
 * simulator/fleet: routing policies on many simulated workers.
 *
 *   fleet.ts          the router's production parts before simulated workers
 *   fleet-prompts.ts  the tokens of requests
 *   fleet-result.ts   hit rate, times and imbalance
 *   ideal-hits.ts     the hit rate of one cache without bounds
 *
 * Invariant: has no policy of its own, and no clock but the simulated one.
 *
 * @module
 */
export { type FleetOptions, runFleet } from "./fleet.ts";
export type { FleetResult, Quantiles } from "./fleet-result.ts";
export { idealHitRate } from "./ideal-hits.ts";
