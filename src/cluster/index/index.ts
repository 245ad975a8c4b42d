/**
 * cluster/index: which worker has which part of a prompt.
 *
 * Blocks are named by the index itself, with a keyed hash over their scope and all their tokens:
 * contents of all workers and dialects meet. What a worker calls them is remembered per worker.
 *
 *   fleet-index.ts   one index of a fleet, of the next two
 *   worker-slots.ts  numbers of workers that are gone, and what they held
 *   kv-index.ts      the exact index: changes in, matches out
 *   approximate-index.ts  what was sent where lately (guesses.ts)
 *   sharded-kv-index.ts  the exact index over threads (shard-thread.ts), answered later
 *   hit-ceiling.ts   what a cache without end would have hit, and why the fleet did not
 *   block-namer.ts   the names of contents
 *   block-book.ts    who holds what, within the budget (byte-budget.ts); eviction
 *   block-nodes.ts   contents, and who has them (node-table.ts, member-sets.ts)
 *   holdings.ts      what each worker calls its blocks, and its references to them
 *   prefix-walk.ts   follows a prompt through the nodes; group-walk.ts where layers have groups
 *   keyed-slab.ts    hash tables of typed arrays, over slab.ts
 *
 * Invariant: no object per block; all tables count towards one bound in bytes.
 * Invariant: reads no clock and no settings, and never throws at what a worker announces.
 *
 * @module
 */
export { ApproximateIndex, type ApproximateIndexOptions } from "./approximate-index.ts";
export { BlockNamer, type HashSecret, randomSecret } from "./block-namer.ts";
export { FleetIndex, type FleetIndexOptions, type FleetIndexStats } from "./fleet-index.ts";
export type { GuessStats } from "./guesses.ts";
export {
  type CeilingStats,
  HitCeiling,
  type HitCeilingOptions,
  type LostTokens,
  type RoutedRequest,
  type SeenBefore,
} from "./hit-ceiling.ts";
export { KvIndex, type KvIndexOptions, type KvIndexStats } from "./kv-index.ts";
export { ShardedKvIndex, type ShardedKvIndexOptions } from "./sharded-kv-index.ts";
