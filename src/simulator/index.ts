/**
 * simulator: runs the production code on a recorded load, without a model.
 *
 *   trace.ts          a file of requests, line by line
 *   trace-lines.ts    its lines, of a file or a pipe; trace-row.ts: what one says
 *   mixed-workload.ts a made-up load of three kinds, from a seed
 *   synthetic-trace.ts  one with the statistics of Mooncake's synthetic trace, from a seed
 *   length-mix.ts     how long prompts and outputs of a kind of traffic are
 *   cache-replay.ts   runs a trace through the KV cache: hit rates and evictions
 *   sim-clock.ts      simulated time: an event queue
 *   sim-worker.ts     a worker on it; sim-kv-changes.ts: its cache's events as a fleet reads them
 *   traffic/          made-up and recorded loads for fleets
 *   fleet/            many of them behind the router's production parts
 *   report/           pictures of a run
 *   pools/            prefill and decode on different nodes, behind the conductor
 *
 * Invariant: has no cache and no scheduler of its own; it drives those of the engine.
 *
 * @module
 */
export {
  COST_PRESETS,
  type CostFit,
  type CostModel,
  type CostPoint,
  type CostPreset,
  costPreset,
  fitCost,
  isCostPreset,
  loadCostModel,
  type MockVocabulary,
  mockOutput,
  poolBlocks,
  type StepCost,
  type StepSize,
  speededUp,
} from "#engine/mock";
export {
  type ReplayedRequest,
  type ReplayOptions,
  type ReplayResult,
  replayTrace,
} from "./cache-replay.ts";
export {
  type FleetOptions,
  type FleetResult,
  idealHitRate,
  type Quantiles,
  runFleet,
} from "./fleet/index.ts";
export {
  drawLengths,
  LENGTH_MIXES,
  type LengthMix,
  type LengthMixName,
  type LengthShape,
  type RequestLengths,
  withSpread,
} from "./length-mix.ts";
export { mixedWorkload } from "./mixed-workload.ts";
export {
  CACHE_PLACES,
  type CachePlace,
  type CoupledRules,
  costsOf,
  FleetConfig,
  HOT_RANKS,
  type LoadSample,
  type NodeCosts,
  PAPER_COSTS,
  type PoolOptions,
  type PoolRequestRow,
  type PoolResult,
  parseFleet,
  runPools,
  stagedPromptMs,
  type TimeSpread,
} from "./pools/index.ts";
export { poolReport, type ReportOptions } from "./report/index.ts";
export { SimClock } from "./sim-clock.ts";
export { kvChangesOf, type ScopeBase } from "./sim-kv-changes.ts";
export {
  SIM_VOCABULARY,
  type SimListener,
  type SimOutcome,
  type SimRequest,
  SimWorker,
  type SimWorkerParts,
  speedsOf,
} from "./sim-worker.ts";
export {
  SYNTHETIC_REQUESTS,
  type SyntheticOptions,
  syntheticTrace,
} from "./synthetic-trace.ts";
export {
  parseTrace,
  readTrace,
  type Trace,
  type TraceOptions,
  type TraceRequest,
} from "./trace.ts";
export { traceLines } from "./trace-lines.ts";
export * from "./traffic/index.ts";
