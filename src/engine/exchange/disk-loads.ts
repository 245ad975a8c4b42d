import { type LookUp, type PrefixMatch, scopeKey } from "#kvcache";
import type { ExchangeParts } from "./exchange-parts.ts";

/** A prompt of which blocks are on disk. */
interface WantedPrompt {
  readonly tokens: LookUp["tokens"];
  readonly cacheSalt: string | null;
}

/** Host memory has room for so many loads of one prompt: more would evict what the first read. */
const LOADS_MAX = 16;

/**
 * Brings blocks from disk to host memory, from where they are given. Of an engine that computes the
 * scheduler does so, for its own requests.
 */
export class DiskLoads {
  readonly #parts: ExchangeParts;
  readonly #waiting = new Map<number, () => void>();
  #nextKey = 1;

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
  }

  /** Settles when what is on disk of a prompt has come, as far as there is room for it. */
  async bring(prompt: WantedPrompt): Promise<void> {
    if (!this.#parts.memoryAlone) return;
    let left = Number.POSITIVE_INFINITY;
    for (let loads = 0; loads < LOADS_MAX; loads++) {
      const match = this.match(prompt);
      // What was read may have been evicted again, or was not readable.
      if (match.onDisk.length === 0 || match.onDisk.length >= left) return;
      left = match.onDisk.length;
      if (!(await this.#load(match))) return;
    }
  }

  /** All full blocks of the prompt that are stored. */
  match({ tokens, cacheSalt }: WantedPrompt): PrefixMatch {
    // Of a prompt all tokens but the last are matched.
    const oneMore = new Int32Array(tokens.length + 1);
    oneMore.set(tokens);
    return this.#parts.cache.match(scopeKey({ loraId: null, cacheSalt }), oneMore);
  }

  /** Loads that have ended, by key. */
  loaded(keys: readonly number[]): void {
    for (const key of keys) {
      this.#waiting.get(key)?.();
      this.#waiting.delete(key);
    }
  }

  close(): void {
    this.loaded([...this.#waiting.keys()]);
  }

  async #load(match: PrefixMatch): Promise<boolean> {
    const key = this.#nextKey++;
    if (!this.#parts.cache.startLoad(match, key)) return false;
    const done = new Promise<void>((resolve) => this.#waiting.set(key, resolve));
    this.#parts.onWake();
    await done;
    return true;
  }
}
