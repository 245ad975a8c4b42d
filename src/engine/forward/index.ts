/**
 * engine/forward: steps computed by a model on a device.
 *
 *   decoder-executor.ts   the StepExecutor of this process: moves, decoder, sampler
 *   part-executor.ts      the same of a part of a decoder, which hands hidden states on
 *   given-hidden.ts       hidden states that a part takes; moment.ts, stage-watch.ts: where its
 *                         time goes
 *   token-mover.ts        moves keys and values of accepted tokens inside the cache
 *   row-drafter.ts        drafts by a network that reads hidden states of the step
 *   kv-drafter.ts         drafts by a network with keys and values of its own
 *   chain-acceptance.ts   accepts chains on the device
 *   late-tokens.ts        drafted tokens that the next step reads on the device
 *   worst-step.ts         runs the largest steps, to measure their memory
 *   encoder-engine.ts     embeddings by an encoder
 *
 * @module
 */
export { DecoderExecutor, type DecoderExecutorParts } from "./decoder-executor.ts";
export { EncoderEngine } from "./encoder-engine.ts";
export type { GivenHidden } from "./given-hidden.ts";
export { KvDrafter, type KvDrafterParts, type ScratchSize, scratchBlocks } from "./kv-drafter.ts";
export { LateTokens, type LateTokensParts } from "./late-tokens.ts";
export { Moment, whenDone } from "./moment.ts";
export {
  type NextParts,
  PartExecutor,
  type PartExecutorParts,
  type StepAway,
} from "./part-executor.ts";
export { RowDrafter, type RowDrafterParts } from "./row-drafter.ts";
export { StageWatch, type StepMoments } from "./stage-watch.ts";
export { TokenMover, type TokenMoverLimits } from "./token-mover.ts";
export { TreeAcceptance, type TreeAcceptanceParts } from "./tree-acceptance.ts";
export { runWorstSteps } from "./worst-step.ts";
