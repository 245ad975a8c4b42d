/** What a router keeps of a vLLM worker's events: hashes by medium, counted, with their chains. */
import type { KvSnapshot } from "../../src/kvcache/events/kv-event.ts";
import type { VllmBlockStored, VllmEvent } from "../../src/kvcache/events/vllm-event-encoder.ts";

const MEDIUMS = ["GPU", "CPU", "STORAGE"];

interface Known {
  readonly parent: bigint | null;
  readonly tokens: string;
}

export class VllmIndex {
  readonly #blockTokens: number;
  /** How often a hash is stored, by `medium hash`. */
  readonly #counts = new Map<string, number>();
  readonly #known = new Map<bigint, Known>();

  constructor(blockTokens: number) {
    this.#blockTokens = blockTokens;
  }

  apply(event: VllmEvent): void {
    switch (event.type) {
      case "BlockStored":
        this.#store(event);
        break;
      case "BlockRemoved":
        for (const hash of event.block_hashes) this.#count(`${event.medium} ${hash}`, -1);
        break;
      case "AllBlocksCleared":
        this.#counts.clear();
    }
  }

  /** What the index has wrong of a cache's contents; null: nothing. */
  problemWith(snapshot: KvSnapshot): string | null {
    const full = snapshot.blocks.filter(({ tokenIds }) => tokenIds.length === this.#blockTokens);
    if (full.length !== this.#counts.size) return `${this.#counts.size} of ${full.length} blocks`;
    for (const { hash, level, parentHash, tokenIds } of full) {
      const known = this.#known.get(hash);
      if (this.#counts.get(`${MEDIUMS[level]} ${hash}`) !== 1) return `${hash} is not once there`;
      if (known?.parent !== parentHash) return `${hash} has another parent`;
      if (known.tokens !== String(tokenIds)) return `${hash} has other tokens`;
    }
    return null;
  }

  #store(event: VllmBlockStored): void {
    let parent = event.parent_block_hash;
    event.block_hashes.forEach((hash, place) => {
      const start = place * event.block_size;
      const tokens = String(event.token_ids.slice(start, start + event.block_size));
      this.#known.set(hash, { parent, tokens });
      this.#count(`${event.medium} ${hash}`, 1);
      parent = hash;
    });
  }

  #count(key: string, change: number): void {
    const count = (this.#counts.get(key) ?? 0) + change;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
  }
}
