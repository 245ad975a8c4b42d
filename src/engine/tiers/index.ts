/**
 * engine/tiers: KV blocks in host memory and on disk, below the cache's bookkeeping.
 *
 *   cache-memory.ts     all levels together
 *   flush.ts            what is cached goes to disk at the end
 *   level-mover.ts       copies between levels; lanes.ts orders disk operations, paced-offloads.ts
 *                       makes room for other engines' blocks beside the steps; move-stats.ts
 *   disk-store.ts       files of blocks: disk-folder.ts, disk-files.ts, block-file.ts,
 *                       disk-scan.ts, folder-lock.ts, survivors.ts (of an earlier process)
 *   peer-link.ts        what carries blocks to other engines and from them
 *   device-pulls.ts     copies from other engines' devices of this machine
 *   model-fingerprint.ts   identifies the model of stored blocks
 *   level-sizes.ts, size-errors.ts   errors for impossible sizes
 *   traffic.ts, paced-warnings.ts    statistics of transfers, warnings at a bounded rate
 *
 * @module
 */
export { CacheMemory } from "./cache-memory.ts";
export { LevelMover } from "./level-mover.ts";
export { type FingerprintInput, modelFingerprint } from "./model-fingerprint.ts";
export type { MoveStats } from "./move-stats.ts";
export type { DevicePlace, FetchedPieces, PeerLink, Pull } from "./peer-link.ts";
export { allocateHost, SharedParts } from "./shared-parts.ts";
export { tooLarge, tooSmall } from "./size-errors.ts";
export type { TrafficStats } from "./traffic.ts";
