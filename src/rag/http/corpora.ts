/** The corpora behind vector stores: one for each, of the same name. */
import type { Embedder } from "#rag/embedders";
import type { VectorStore } from "#rag/stores";

/** What corpora are made in, and with. */
export interface CorporaParts {
  readonly store: VectorStore;
  readonly embedder: Pick<Embedder, "dimensions" | "fingerprint">;
}

export class Corpora {
  readonly #parts: CorporaParts;
  /** Those that are known to be there. */
  readonly #made = new Set<string>();

  constructor(parts: CorporaParts) {
    this.#parts = parts;
  }

  /** Makes one unless it is there. Throws STORE_UNAVAILABLE, CORPUS_INVALID. */
  async make(name: string): Promise<void> {
    if (this.#made.has(name)) return;
    const { store, embedder } = this.#parts;
    const { dimensions, fingerprint } = embedder;
    await store.create({ name, dimensions, embedder: fingerprint });
    this.#made.add(name);
  }

  /** Without effect where there is none. */
  async drop(name: string): Promise<void> {
    this.#made.delete(name);
    await this.#parts.store.drop(name);
  }
}
