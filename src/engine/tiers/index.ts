/**
 * engine/tiers: the bytes of host memory and disk behind the cache's books.
 *
 *   cache-memory.ts     all levels together
 *   tier-mover.ts       copies between levels; lanes.ts: in which order
 *   disk-store.ts       files of blocks: disk-folder.ts, disk-files.ts, block-file.ts,
 *                       disk-scan.ts, folder-lock.ts, survivors.ts (of an earlier process)
 *   model-fingerprint.ts   whose blocks they are
 *   level-sizes.ts, size-errors.ts   sizes that cannot be are refused
 *   traffic.ts, paced-warnings.ts    what is counted, and said
 *
 * @module
 */
export { CacheMemory } from "./cache-memory.ts";
export { type FingerprintInput, modelFingerprint } from "./model-fingerprint.ts";
export { tooLarge, tooSmall } from "./size-errors.ts";
export type { MoveCounts } from "./tier-mover.ts";
export type { TrafficCounts } from "./traffic.ts";
