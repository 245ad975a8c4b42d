/**
 * sampling: from logits to tokens.
 *
 *   sampling-params.ts   what a request may ask, with defaults and ranges
 *
 * @module
 */
export { type SamplingOptions, SamplingParams, StructuredOutput } from "./sampling-params.ts";
