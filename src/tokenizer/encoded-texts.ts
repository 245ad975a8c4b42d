/**
 * Long texts that were encoded lately, apart by the cache salt of their requests: how long a text
 * takes must not tell whether a stranger's began as it does. The next turn of a conversation begins
 * as the last one, and its ids do, too, up to an added token, behind which encoding begins anew in
 * any case.
 */

/** Shorter texts cost less to encode than to compare. */
const UNITS_MIN = 4_096;
/** Of all kept texts together: at most 8 MB of text, and as many ids as that has. */
const UNITS_MAX = 4 * 2 ** 20;
/** Every kept text is compared with a new one. */
const TEXTS_MAX = 32;

/** Ends of added tokens in a text, and how many ids there are up to each. */
export interface Cuts {
  readonly ends: number[];
  readonly counts: number[];
}

interface EncodedText extends Cuts {
  readonly text: string;
  readonly salt: string | null;
  readonly ids: Int32Array;
}

/** A beginning of a text that needs no encoding. */
export interface KnownBeginning extends Cuts {
  /** Valid until the next `add`. */
  readonly ids: Int32Array;
}

const NO_IDS = new Int32Array(0);

/** The texts, the newest last. */
export class EncodedTexts {
  #texts: EncodedText[] = [];
  #units = 0;
  /** Units behind a cut that must be equal, too: a longer token could begin where one ends. */
  readonly #beyond: number;

  /** `tokenUnitsMax`: of the longest added token. */
  constructor(tokenUnitsMax: number) {
    this.#beyond = tokenUnitsMax;
  }

  /**
   * Ids of the longest beginning that a kept text of the same salt shares with this one, up to one
   * of its cuts.
   */
  find(text: string, salt: string | null = null): KnownBeginning {
    if (text.length < UNITS_MIN) return { ids: NO_IDS, ends: [], counts: [] };
    let best: EncodedText | null = null;
    let most = 0;
    for (const known of this.#texts) {
      if (known.salt !== salt) continue;
      const shared = this.#sharedCuts(known, text);
      const end = known.ends[shared - 1] ?? 0;
      if (end <= (best?.ends[most - 1] ?? 0)) continue;
      best = known;
      most = shared;
    }
    if (best === null) return { ids: NO_IDS, ends: [], counts: [] };
    return {
      ids: best.ids.subarray(0, best.counts[most - 1] ?? 0),
      ends: best.ends.slice(0, most),
      counts: best.counts.slice(0, most),
    };
  }

  /** Keeps a text, and a copy of its ids; of one that it continues, only this one stays. */
  add(text: string, ids: Int32Array, { ends, counts }: Cuts, salt: string | null = null): void {
    if (text.length < UNITS_MIN || text.length > UNITS_MAX / 4 || ends.length === 0) return;
    const last = ends.at(-1) ?? 0;
    this.#keep(({ text: other, ends: own, salt: of }) => {
      if (of !== salt) return true;
      const end = own.at(-1) ?? 0;
      return end > last || !text.startsWith(other.slice(0, end));
    });
    this.#texts.push({ text, salt, ids: ids.slice(), ends, counts });
    this.#units += text.length;
    while (this.#units > UNITS_MAX || this.#texts.length > TEXTS_MAX) {
      this.#units -= this.#texts.shift()?.text.length ?? 0;
    }
  }

  #keep(isKept: (text: EncodedText) => boolean): void {
    this.#texts = this.#texts.filter(isKept);
    this.#units = this.#texts.reduce((sum, { text }) => sum + text.length, 0);
  }

  /** How many of a text's cuts, the first ones, are in another text as well. */
  #sharedCuts({ text: known, ends }: EncodedText, text: string): number {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#shares(known, text, ends[middle] ?? 0)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #shares(known: string, text: string, end: number): boolean {
    const units = end + this.#beyond;
    return units <= known.length && text.startsWith(known.slice(0, units));
  }
}
