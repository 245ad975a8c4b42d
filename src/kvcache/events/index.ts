/**
 * kvcache/events: the KV events that a cache emits for readers outside of it.
 *
 *   kv-event.ts         the events; kv-event-queue.ts numbers those of a step
 *   store-observer.ts   makes events from changes, and names contents
 *   kv-event-log.ts     the newest events, for readers; kv-mirror.ts: a reader's copy of contents
 *   kv-event-json.ts, kv-event-json-reader.ts   events in TensorRT-LLM's JSON
 *   kv-run.ts           runs of stored blocks, packed, for routers
 *   vllm-event-encoder.ts   events in vLLM's form
 *
 * @module
 */

export type {
  KvEvent,
  KvSnapshot,
  NumberedKvEvent,
  SnapshotBlock,
  StoredBlock,
} from "./kv-event.ts";
export { kvEventJson, kvEventsJson, kvSnapshotJson, type TokenForm } from "./kv-event-json.ts";
export {
  type KvSnapshotPart,
  parseKvEvent,
  parseKvEvents,
  parseKvSnapshot,
} from "./kv-event-json-reader.ts";
export {
  isLost,
  KV_EVENTS_KEPT,
  type KvEventItem,
  KvEventLog,
  KvEventReader,
  type LostKvEvents,
} from "./kv-event-log.ts";
export { KvEventQueue } from "./kv-event-queue.ts";
export { KvMirror } from "./kv-mirror.ts";
export { type KvRun, kvRunJson, type NumberedKvRun, parseKvRun } from "./kv-run.ts";
export { createObserver, type ObservedContents, StoreObserver } from "./store-observer.ts";
export {
  type VllmAllBlocksCleared,
  type VllmBlockRemoved,
  type VllmBlockStored,
  type VllmEvent,
  VllmEventEncoder,
  type VllmExtraKey,
  type VllmMedium,
} from "./vllm-event-encoder.ts";
