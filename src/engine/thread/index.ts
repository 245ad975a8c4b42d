/**
 * engine/thread: the engine's own thread: loads a model, and serves callers.
 *
 *   engine-thread.ts    connects the message port to service.ts; inline-link.ts needs no thread
 *   service-clients.ts  which caller gets which output
 *   load-engine.ts      checkpoint to running engine: loading.ts has the types, load-phases.ts the
 *                       times, load-decoder.ts a decoder's part; load-mock.ts: no model at all;
 *                       load-memory.ts, memory-engine.ts: no weights, blocks for others alone
 *   memory-plan.ts      sizes the pool; cache-plan.ts: a cache before its memory is allocated
 *   attention-window.ts, cuda-settings.ts, idle-settings.ts   what options specify
 *   kv-identity.ts      what keys and values depend on beside the tokens
 *   embedding-info.ts   how a model embeds
 *   cache-stats.ts      statistics of all levels of the cache, for metrics
 *
 * @module
 */
export { openInline } from "./inline-link.ts";
