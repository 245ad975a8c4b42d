/**
 * perigee: language models served from TypeScript, built around the KV cache.
 *
 * @module
 */
import "./unbundled.ts";

export { EngineError, type ErrorCode } from "#base";
export * from "#engine";
