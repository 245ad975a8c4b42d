/** Words of one generation; two of them are kept. */
const WORDS_MAX = 16_384;
/** Longer words recur less, and would let a client fill the memory. */
const WORD_UNITS_MAX = 32;

/**
 * Tokens of words that were encoded lately, at most 32 k of them, some 5 MB. Words that are asked
 * for stay: when one generation is full, the one before it is forgotten, and what is found there
 * meanwhile moves on.
 */
export class WordCache {
  #young = new Map<string, Int32Array>();
  #old = new Map<string, Int32Array>();

  get(word: string): Int32Array | undefined {
    const found = this.#young.get(word);
    if (found !== undefined) return found;
    const older = this.#old.get(word);
    if (older !== undefined) this.set(word, older);
    return older;
  }

  set(word: string, ids: Int32Array): void {
    if (word.length > WORD_UNITS_MAX) return;
    if (this.#young.size >= WORDS_MAX) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(word, ids);
  }
}
