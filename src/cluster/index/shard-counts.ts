import type { KvChange } from "#cluster/protocol";
import type { KvIndexStats } from "./kv-index.ts";

/**
 * Makes one sum of what shards count. Each of them counts as unknown what the others have; how
 * often that is follows from what was sent to all.
 */
export class ShardCounts {
  readonly #shards: number;
  /** Changes that no shard saw. */
  malformed = 0;
  #stored = 0;
  /** Blocks below a parent, blocks without tokens, and names of removals and moves. */
  #below = 0;
  #placeholders = 0;
  #names = 0;

  constructor(shards: number) {
    this.#shards = shards;
  }

  sent(change: KvChange): void {
    if (change.type === "cleared") return;
    const blocks = change.names.length >>> 1;
    if (change.type !== "stored") {
      this.#names += blocks;
      return;
    }
    this.#stored += blocks;
    if (change.tokens.length === 0) this.#placeholders += blocks;
    else if (change.parent !== null) this.#below += blocks;
  }

  /** These counts as they are now. */
  snapshot(): ShardCounts {
    const copy = new ShardCounts(this.#shards);
    copy.malformed = this.malformed;
    copy.#stored = this.#stored;
    copy.#below = this.#below;
    copy.#placeholders = this.#placeholders;
    copy.#names = this.#names;
    return copy;
  }

  /** The sum, where all shards have taken over what was sent. */
  sum(stats: readonly KvIndexStats[]): KvIndexStats {
    const total = (field: keyof KvIndexStats) => stats.reduce((sum, one) => sum + one[field], 0);
    const others = this.#shards - 1;
    return {
      bytes: total("bytes"),
      bytesMax: total("bytesMax"),
      workers: stats[0]?.workers ?? 0,
      blocks: total("blocks"),
      memberships: total("memberships"),
      stored: this.#stored,
      removed: total("removed"),
      evicted: total("evicted"),
      refused: total("refused"),
      ignoredRemovals: total("ignoredRemovals") - others * this.#names,
      unknownParents: total("unknownParents") - others * this.#below,
      placeholders: total("placeholders") - others * this.#placeholders,
      renamed: total("renamed"),
      malformed: this.malformed,
    };
  }
}
