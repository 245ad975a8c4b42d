/**
 * engine/forward: steps computed by a model on a device.
 *
 *   decoder-runner.ts   the ModelRunner of decoders
 *   step-item.ts        the rows that each sequence of a step needs; step-builder.ts packs them
 *   worst-step.ts       runs the largest steps, to measure their memory
 *   encoder-engine.ts   embeddings by an encoder
 *
 * @module
 */
export { DecoderRunner, type DecoderRunnerParts } from "./decoder-runner.ts";
export { EncoderEngine } from "./encoder-engine.ts";
export { StepBuilder } from "./step-builder.ts";
export { runWorstSteps } from "./worst-step.ts";
