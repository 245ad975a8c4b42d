/**
 * engine/mock: a worker without a model: the production scheduler, cache and step loop, whose
 * steps take the time of a cost model, and whose tokens are made up.
 *
 *   cost-model.ts     how long a step takes; cost-fit.ts: from measured points;
 *                     cost-presets.ts: machines that were measured
 *   mock-tokens.ts    a token from its seed, its position and the token before it
 *   mock-memory.ts    the cache's levels without bytes
 *
 * Invariant: has no scheduler and no cache of its own.
 *
 * @module
 */
export { type CostFit, type CostPoint, fitCost } from "./cost-fit.ts";
export {
  type CostModel,
  loadMs,
  pairsOf,
  type StepCost,
  StepMeter,
  type StepSize,
  speededUp,
  stepMs,
} from "./cost-model.ts";
export {
  COST_PRESETS,
  type CostPreset,
  costPreset,
  isCostPreset,
  presetFit,
  presetPoints,
} from "./cost-presets.ts";
export { MockMemory } from "./mock-memory.ts";
export { type MockVocabulary, mockOutput, mockToken, type TokenPlace } from "./mock-tokens.ts";
