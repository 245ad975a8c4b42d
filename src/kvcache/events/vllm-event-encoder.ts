/**
 * Events in vLLM's format (V 2.2), so that routers for vLLM's workers work with this engine. The
 * maps of vLLM 0.24 and later; the server packs and sends them.
 */
import type { CacheLevel } from "#kvcache/contents";
import type { KvSnapshot, NumberedKvEvent, StoredBlock } from "./kv-event.ts";
import { KvMirror } from "./kv-mirror.ts";

/** Levels as vLLM names them. */
export type VllmMedium = "GPU" | "CPU" | "STORAGE";

/**
 * Level 0 is "GPU" on every device: routers take the name for the level that a worker computes
 * from, and weigh or skip the others. A worker without a GPU would not be found otherwise.
 */
const MEDIUMS: Readonly<Record<CacheLevel, VllmMedium>> = { 0: "GPU", 1: "CPU", 2: "STORAGE" };

/** Keys that distinguish a block beside its tokens: item and offset pairs, salt, extra ids. */
export type VllmExtraKey = string | readonly [hash: string, offset: number] | readonly number[];

/** A run of full blocks that can be found on a medium. */
export interface VllmBlockStored {
  readonly type: "BlockStored";
  readonly block_hashes: readonly bigint[];
  /** Null at the root. */
  readonly parent_block_hash: bigint | null;
  /** [block_hashes · block_size] */
  readonly token_ids: readonly number[];
  readonly block_size: number;
  readonly lora_id: number | null;
  readonly medium: VllmMedium;
  readonly lora_name: null;
  /** One per block; null where there are none. */
  readonly extra_keys: readonly (readonly VllmExtraKey[] | null)[];
  /** The group of layers. */
  readonly group_idx: number;
  readonly kv_cache_spec_kind: "full_attention" | "sliding_window";
  /** Most positions that a token sees; only where that is limited. */
  readonly kv_cache_spec_sliding_window?: number;
}

/** Blocks that cannot be found on a medium any more. */
export interface VllmBlockRemoved {
  readonly type: "BlockRemoved";
  readonly block_hashes: readonly bigint[];
  readonly medium: VllmMedium;
  readonly group_idx: number;
}

/** Nothing can be found any more, on no medium. */
export interface VllmAllBlocksCleared {
  readonly type: "AllBlocksCleared";
}

/** One event in vLLM's format. */
export type VllmEvent = VllmBlockStored | VllmBlockRemoved | VllmAllBlocksCleared;

/** Most blocks of one event: routers bound the size of an event. */
const BLOCKS_PER_EVENT_MAX = 1024;

/** How vLLM names the attention of a group of layers. */
type AttentionSpec = Pick<VllmBlockStored, "kv_cache_spec_kind" | "kv_cache_spec_sliding_window">;

/** A run of full blocks of a group, each continuing the one before, on one level. */
interface Run {
  readonly group: number;
  readonly parentHash: bigint | null;
  readonly blocks: StoredBlock[];
}

/**
 * Translates one cache's events, in order. vLLM has full blocks only, so shorter ones are left out;
 * contents that change their level are stored on the new one and then removed from the old. The
 * encoder keeps all contents for that: vLLM's events repeat the tokens, `updated` has none.
 */
export class VllmEventEncoder {
  readonly #blockTokens: number;
  /** By group of layers. */
  readonly #specs: readonly AttentionSpec[];
  readonly #mirror = new KvMirror();

  /** `windows`: by group of layers, most positions that a token sees; null: all. */
  constructor(blockTokens: number, windows: readonly (number | null)[] = [null]) {
    this.#blockTokens = blockTokens;
    this.#specs = windows.map((window) =>
      window === null
        ? { kv_cache_spec_kind: "full_attention" }
        : { kv_cache_spec_kind: "sliding_window", kv_cache_spec_sliding_window: window },
    );
  }

  /** An event's translation; often none. Null: events are missing before it, load a snapshot. */
  encode(numbered: NumberedKvEvent): readonly VllmEvent[] | null {
    if (numbered.id < this.#mirror.nextId) return [];
    // Translated before the event is applied: a removal does not contain the levels of its blocks.
    const events = this.#translate(numbered);
    return this.#mirror.apply(numbered) ? events : null;
  }

  /** Starts over from a snapshot: clears all contents, then stores those of the snapshot. */
  load(snapshot: KvSnapshot): readonly VllmEvent[] {
    this.#mirror.load(snapshot);
    const runs: Run[] = [];
    for (const block of snapshot.blocks) {
      this.#extend(runs, { group: block.group ?? 0, parentHash: block.parentHash }, block);
    }
    return [{ type: "AllBlocksCleared" }, ...runs.map((run) => this.#stored(run))];
  }

  #translate({ event, group = 0 }: NumberedKvEvent): readonly VllmEvent[] {
    switch (event.type) {
      case "created":
        return [];
      case "stored": {
        const runs: Run[] = [];
        let parentHash = event.parentHash;
        for (const block of event.blocks) {
          this.#extend(runs, { group, parentHash }, block);
          parentHash = block.hash;
        }
        return runs.map((run) => this.#stored(run));
      }
      case "removed":
        return this.#removed(event.hashes, group);
      case "cleared":
        return [{ type: "AllBlocksCleared" }];
      case "updated":
        return event.level === null ? [] : this.#moved(event.hash, event.level.newValue, group);
    }
  }

  /** Appends a block to the last run where it continues that, or begins another one. */
  #extend(runs: Run[], { group, parentHash }: Omit<Run, "blocks">, block: StoredBlock): void {
    if (block.tokenIds.length !== this.#blockTokens) return;
    const last = runs.at(-1);
    const tip = last?.blocks.at(-1);
    const continues =
      tip !== undefined &&
      last?.group === group &&
      tip.hash === parentHash &&
      tip.level === block.level &&
      last !== undefined &&
      last.blocks.length < BLOCKS_PER_EVENT_MAX;
    if (continues) last.blocks.push(block);
    else runs.push({ group, parentHash, blocks: [block] });
  }

  #stored({ group, parentHash, blocks }: Run): VllmBlockStored {
    const { level = 0, loraId = null } = blocks[0] ?? {};
    return {
      type: "BlockStored",
      block_hashes: blocks.map(({ hash }) => hash),
      parent_block_hash: parentHash,
      token_ids: blocks.flatMap(({ tokenIds }) => tokenIds),
      block_size: this.#blockTokens,
      lora_id: loraId,
      medium: MEDIUMS[level],
      lora_name: null,
      extra_keys: blocks.map((block, place) =>
        extraKeys(block, parentHash === null && place === 0),
      ),
      group_idx: group,
      ...(this.#specs[group] ?? { kv_cache_spec_kind: "full_attention" }),
    };
  }

  /** One event per level that the hashes were on. */
  #removed(hashes: readonly bigint[], group: number): VllmBlockRemoved[] {
    const byMedium = new Map<VllmMedium, bigint[]>();
    for (const hash of hashes) {
      const block = this.#mirror.find(hash, group);
      if (block?.tokenIds.length !== this.#blockTokens) continue;
      const medium = MEDIUMS[block.level];
      const others = byMedium.get(medium);
      if (others === undefined) byMedium.set(medium, [hash]);
      else others.push(hash);
    }
    return [...byMedium].map(([medium, block_hashes]) => ({
      type: "BlockRemoved",
      block_hashes,
      medium,
      group_idx: group,
    }));
  }

  #moved(hash: bigint, level: CacheLevel, group: number): VllmEvent[] {
    const block = this.#mirror.find(hash, group);
    if (block?.tokenIds.length !== this.#blockTokens || block.level === level) return [];
    const { parentHash } = block;
    const stored = this.#stored({ group, parentHash, blocks: [{ ...block, level }] });
    return [stored, ...this.#removed([hash], group)];
  }
}

/**
 * In vLLM's order. An item's offset counts from the block's start: negative where the item began
 * before; 0 wherever it begins inside the block. Only the first block has a salt.
 */
function extraKeys(block: StoredBlock, isRoot: boolean): readonly VllmExtraKey[] | null {
  const keys: VllmExtraKey[] = block.multimodalKeys.map(
    ({ hash, startOffset }) => [hash, 0 - startOffset] as const,
  );
  if (isRoot && block.cacheSalt !== null) keys.push(block.cacheSalt);
  if (block.extraIds !== undefined) keys.push(block.extraIds);
  return keys.length === 0 ? null : keys;
}
