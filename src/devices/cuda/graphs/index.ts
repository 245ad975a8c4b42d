/**
 * devices/cuda/graphs: CUDA graphs that are kept for the next step of the same shape.
 *
 *   replays.ts           graphs by shape of step; fastest.ts: which of several is fastest
 *
 * @module
 */
export { fastest } from "./fastest.ts";
export { paddedBatch, paddedContext, Replays } from "./replays.ts";
