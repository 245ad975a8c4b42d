/**
 * engine/forward: steps computed by a model on a device.
 *
 *   decoder-executor.ts   the StepExecutor of this process: moves, decoder, sampler
 *   token-mover.ts        moves keys and values of accepted tokens inside the cache
 *   worst-step.ts         runs the largest steps, to measure their memory
 *   encoder-engine.ts     embeddings by an encoder
 *
 * @module
 */
export { DecoderExecutor, type DecoderExecutorParts } from "./decoder-executor.ts";
export { EncoderEngine } from "./encoder-engine.ts";
export { TokenMover, type TokenMoverLimits } from "./token-mover.ts";
export { runWorstSteps } from "./worst-step.ts";
