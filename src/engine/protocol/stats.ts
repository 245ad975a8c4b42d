import type { CacheStats, LevelStats } from "#kvcache";
import type { StageTimes } from "./stage-times.ts";

/** The engine's statistics at one moment, for metrics and health. */
export interface EngineStats {
  readonly running: number;
  readonly waiting: number;
  /** Of both, sequences whose readers lag: nothing is computed for them. */
  readonly paused: number;
  /** Of both, prompt tokens that are to be computed or found in the cache. */
  readonly uncomputedTokens: number;
  readonly freeBlocks: number;
  readonly heldBlocks: number;
  readonly cachedBlocks: number;
  readonly totalBlocks: number;
  readonly steps: number;
  readonly preemptions: number;
  /** Of requests that began to run, each once, however many sequences it has. */
  readonly promptTokens: number;
  /** Those of them that were in the cache when their request began. */
  readonly cachedPromptTokens: number;
  /** Prompt tokens that steps computed: after a preemption, some of them again. */
  readonly computedPromptTokens: number;
  readonly generatedTokens: number;
  /** Drafts that were verified, one per sequence and step. */
  readonly drafts: number;
  readonly draftedTokens: number;
  /** Drafted tokens that became output. */
  readonly acceptedTokens: number;
  /** [i]: drafts of which token i became output. */
  readonly acceptedPerPosition: readonly number[];
  /** Prefix-cache look-ups and hits, in tokens. */
  readonly prefixQueriedTokens: number;
  readonly prefixHitTokens: number;
  /** Preemptions whose blocks went to host memory; those of the others were computed again. */
  readonly swapPreemptions: number;
  /** Sequences that share a prompt's blocks instead of computing it. */
  readonly forks: number;
  /** Requests that waited for blocks from disk. */
  readonly loads: number;
  /** Null for a model without a cache. While steps run, it may be 100 ms old. */
  readonly cache: CacheReport | null;
  /** Of each stage, in their order; none where the model is in one process. As old as `cache`. */
  readonly stages: readonly StageTimes[];
}

/** Where blocks are, the nearest first. */
export type CacheLevelName = "device" | "host" | "disk";

/** One level's blocks now, and what happened to its contents since the start. */
export interface CacheLevelReport extends Omit<LevelStats, "level"> {
  readonly level: CacheLevelName;
}

/**
 * Kinds of block moves: inside the device before a write to a shared block, between it and host
 * memory, between host memory and disk.
 */
export type MoveDirection = "copy" | "offload" | "onboard" | "diskWrite" | "diskRead";

/** Moves of one kind since the start. */
export interface MoveReport {
  readonly blocks: number;
  readonly bytes: number;
  /** Time of the engine thread, for a device; for a disk, time with a transfer under way. */
  readonly seconds: number;
}

/** What was written to disk at the end, of what was cached nearer. */
export interface FlushReport {
  readonly blocks: number;
  readonly bytes: number;
  readonly ms: number;
  /** Blocks that were not written because the time was over. */
  readonly leftForTime: number;
  /** Blocks that the disk level had no room for, beside what is worth as much. */
  readonly leftForRoom: number;
  /** Blocks that the disk refused, and those behind them. */
  readonly failed: number;
}

/** The cache's statistics for all levels, for metrics; counts are blocks since the start. */
export interface CacheReport extends Omit<CacheStats, "levels" | "heldBlockMs"> {
  /** The device, then host memory and disk where there are such levels. */
  readonly levels: readonly CacheLevelReport[];
  readonly moves: Readonly<Record<MoveDirection, MoveReport>>;
  /**
   * Pieces of blocks that engines of other threads and processes took: sent as bytes, copied by
   * them out of memory of this machine, or read by NIXL.
   */
  readonly sent: Readonly<Record<"bytes" | "mapped" | "nixl", number>>;
  /**
   * Pieces of blocks that came from other engines, which had them stored, and the seconds in which
   * some were on their way.
   */
  readonly fetched: { readonly pieces: number; readonly seconds: number };
  /** Bytes of the device times seconds that requests and transfers held them. */
  readonly kvByteSeconds: number;
}
