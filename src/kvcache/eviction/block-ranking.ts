import { assert } from "#base";
import type { LevelBlockId } from "#kvcache/contents";
import type { EvictionPolicy } from "./eviction.ts";

/** Ranks blocks by their use: blocks of low rank are evicted first. */
export interface BlockRanking
  extends Pick<EvictionPolicy, "shared">,
    Required<Pick<EvictionPolicy, "taken">> {
  rankOf(block: LevelBlockId): number;
}

/** Ranks by uses: the tables that have held a block since its allocation. */
export class UseRanking implements BlockRanking {
  readonly #uses: Float64Array;

  constructor(blocks: number) {
    this.#uses = new Float64Array(blocks);
  }

  taken(block: LevelBlockId): void {
    this.#uses[block] = 1;
  }

  shared(block: LevelBlockId): void {
    this.#uses[block] = this.rankOf(block) + 1;
  }

  rankOf(block: LevelBlockId): number {
    return this.#uses[block] ?? 0;
  }
}

/** Uses weigh more than any depth; blocks of a sequence are fewer than this. */
const DEPTH_LIMIT = 2 ** 21;

/**
 * By uses, then by depth: deep blocks serve only prompts that are equal for long. LengthAwareCache
 * of Qin et al. 2024, "Mooncake: A KVCache-centric Disaggregated Architecture for LLM Serving".
 */
export class DepthRanking implements BlockRanking {
  readonly #uses: UseRanking;
  readonly #index: Int32Array;

  constructor(blocks: number) {
    this.#uses = new UseRanking(blocks);
    this.#index = new Int32Array(blocks);
  }

  taken(block: LevelBlockId, index: number): void {
    assert(index < DEPTH_LIMIT, "Cannot rank a block: its index in the sequence is too large");
    this.#uses.taken(block);
    this.#index[block] = index;
  }

  shared(block: LevelBlockId): void {
    this.#uses.shared(block);
  }

  rankOf(block: LevelBlockId): number {
    return this.#uses.rankOf(block) * DEPTH_LIMIT - (this.#index[block] ?? 0);
  }
}
