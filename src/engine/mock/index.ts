/**
 * engine/mock: a worker without a model: the production scheduler, cache and step loop, whose
 * steps take the time of a cost model, and whose tokens are made up.
 *
 *   cost-model.ts     how long a step takes; cost-fit.ts: from measured points;
 *                     cost-presets.ts: machines that were measured; cost-file.ts: by name, or file
 *   mock-executor.ts  computes steps: waits, and makes tokens up; mock-results.ts: other results
 *   mock-tokens.ts    a token from its seed, its position and the token before it;
 *                     token-edits.ts: under masks and bans; word-tokens.ts: those of plain words
 *   mock-memory.ts    the cache's levels without bytes
 *
 * Invariant: has no scheduler and no cache of its own.
 *
 * @module
 */
export { loadCostModel } from "./cost-file.ts";
export { type CostFit, type CostPoint, fitCost } from "./cost-fit.ts";
export {
  type CostModel,
  loadMs,
  pairsOf,
  poolBlocks,
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
export { MockExecutor, type MockExecutorParts } from "./mock-executor.ts";
export { MockMemory } from "./mock-memory.ts";
export { type MockVocabulary, mockOutput, mockToken, type TokenPlace } from "./mock-tokens.ts";
export { type WordToken, wordTokens } from "./word-tokens.ts";
