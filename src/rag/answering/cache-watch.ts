/** Which blocks a model's cache holds, from its events. */
import type { ServedModel } from "#engine";
import { isLost, type KvEvent, type KvEventReader } from "#kvcache";

/** Follows one model's cache until it is closed. */
export class CacheWatch implements Disposable {
  readonly #llm: ServedModel;
  readonly #hashes = new Set<bigint>();
  #reader: KvEventReader | null = null;
  /** False: the model has no events, or they have not been read yet. */
  #knows = false;

  constructor(llm: ServedModel) {
    this.#llm = llm;
    if (llm.kvEvents.enabled) void this.#follow();
  }

  /** Whether a block's contents can be found in any level; true where that is not known. */
  has(hash: bigint): boolean {
    return !this.#knows || this.#hashes.has(hash);
  }

  /** Known blocks. */
  get size(): number {
    return this.#hashes.size;
  }

  [Symbol.dispose](): void {
    void this.#reader?.return();
    this.#reader = null;
    this.#knows = false;
  }

  async #follow(): Promise<void> {
    const { kvEvents } = this.#llm;
    this.#reader = kvEvents.read(Math.max(-1, kvEvents.firstId - 1));
    let from = kvEvents.firstId;
    try {
      if (from > 0) from = await this.#load();
      this.#knows = true;
      for await (const item of this.#reader) {
        if (isLost(item)) from = await this.#load();
        else if (item.id >= from && (item.group ?? 0) === 0) this.#apply(item.event);
      }
    } catch {
      // The model ended: what it held is of no use any more.
    }
    this.#knows = false;
    this.#hashes.clear();
  }

  /** Starts from a snapshot; returns the number of the first event behind it. */
  async #load(): Promise<number> {
    const { blocks, nextId } = await this.#llm.kvEvents.snapshot();
    this.#hashes.clear();
    for (const { hash, group = 0 } of blocks) if (group === 0) this.#hashes.add(hash);
    return nextId;
  }

  #apply(event: KvEvent): void {
    if (event.type === "created") this.#hashes.clear();
    if (event.type === "stored") for (const { hash } of event.blocks) this.#hashes.add(hash);
    if (event.type === "removed" || event.type === "cleared") {
      for (const hash of event.hashes) this.#hashes.delete(hash);
    }
  }
}
