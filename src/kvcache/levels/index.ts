/**
 * kvcache/levels: the device, host memory and disk, and every move between them.
 *
 *   cache-books.ts    all levels together: stored contents and their moves; books-listeners.ts:
 *                     the parts that are told of changes
 *   level-books.ts    one level: its pool, the retention of its blocks, which one is evicted first
 *   block-pool.ts     counts holders, allocates blocks, frees them
 *   block-move.ts     a copy from one block to another; cache-moves.ts: all of one moment
 *   swap.ts           whole tables to host memory and back
 *   disk-books.ts     transfers to and from disk; disk-heads.ts: the prefixes that must
 *                     be written, too; disk-job.ts: one such transfer
 *   disk-flush.ts     what is cached goes to disk at the end; flush-plan.ts: in which order
 *   peer-books.ts     blocks on their way to other engines (block-sends.ts) and from them
 *                     (block-receives.ts); stored-chain.ts follows a prompt's stored blocks,
 *                     peer-job.ts: one block's transfer
 *   occupation-book.ts   how long blocks of the device are held
 *   load-cost.ts      whether stored blocks are worth fetching; speed-meter.ts measures
 *
 * @module
 */
export type { BlockMove } from "./block-move.ts";
export { BlockPool, type PoolStats } from "./block-pool.ts";
export type { EndedReceive } from "./block-receives.ts";
export { type BooksShape, CacheBooks } from "./cache-books.ts";
export type { CacheMoves } from "./cache-moves.ts";
export { DiskBooks } from "./disk-books.ts";
export type { DiskFlush, FlushCounts } from "./disk-flush.ts";
export type { BlockFile, DiskJob, FinishedDiskJob } from "./disk-job.ts";
export type { LevelBooks } from "./level-books.ts";
export {
  attentionWeight,
  type LoadChoice,
  LoadCost,
  type LoadCostOptions,
  type PrefillShape,
  prefillWork,
} from "./load-cost.ts";
export { OccupationBook } from "./occupation-book.ts";
export { PeerBooks, type PeerStats } from "./peer-books.ts";
export type { FinishedPeerJob, PeerJob, TransferLevel } from "./peer-job.ts";
export { SpeedMeter } from "./speed-meter.ts";
export { Swap } from "./swap.ts";
