/** Finds stop strings in streamed text. */
import { type StopPattern, stopPatterns } from "./stop-pattern.ts";

export interface StopStringOptions {
  /** Keep the stop string at the end of the output. */
  readonly includeInOutput: boolean;
}

export interface StopResult {
  /** Text that can be output now. */
  readonly text: string;
  /** The stop string that ended the output, or null. After a match, `push` must not be called. */
  readonly stop: string | null;
}

/** A match of a stop string; `end` is the index after its last character. */
interface Match {
  readonly stop: string;
  readonly end: number;
}

/**
 * Finds stop strings in one sequence's text. A character costs O(1) amortized per stop string of
 * any length. If the stop string is excluded from the output, text that could be its beginning is
 * held back: at most the length of the longest stop string less one.
 */
export class StopStrings {
  readonly #stops: readonly string[];
  readonly #patterns: readonly StopPattern[];
  /** By pattern: the length of the pattern's longest prefix that the text ends with. */
  readonly #states: number[];
  readonly #include: boolean;
  /** The end of the text, not returned yet. */
  #held = "";

  /** `stops`: no empty strings; not changed afterwards. */
  constructor(stops: readonly string[], options: StopStringOptions) {
    this.#stops = stops;
    this.#patterns = stopPatterns(stops);
    this.#states = stops.map(() => 0);
    this.#include = options.includeInOutput;
  }

  /**
   * Takes new text and returns the text that can be output. `armed` false (before `minTokens`): a
   * stop string that ends in this text does not count.
   */
  push(text: string, armed = true): StopResult {
    if (this.#patterns.length === 0) return { text, stop: null };
    const match = this.#advance(text, armed);
    const all = this.#held + text;
    if (match !== null) {
      const end = this.#held.length + match.end;
      this.#held = "";
      return {
        text: all.slice(0, this.#include ? end : end - match.stop.length),
        stop: match.stop,
      };
    }
    const open = this.#include ? 0 : this.#openLength();
    const shown = all.length - open;
    this.#held = all.slice(shown);
    return { text: all.slice(0, shown), stop: null };
  }

  /** The match that ends first in `text`; of several that end there, the longest. */
  #advance(text: string, armed: boolean): Match | null {
    for (let i = 0; i < text.length; i++) {
      const stop = this.#advanceBy(text.charCodeAt(i));
      if (armed && stop !== null) return { stop, end: i + 1 };
    }
    return null;
  }

  /** The longest stop string that ends with this UTF-16 unit, or null. */
  #advanceBy(unit: number): string | null {
    let found: string | null = null;
    for (const [i, pattern] of this.#patterns.entries()) {
      const state = pattern.advance(this.#states[i] ?? 0, unit);
      this.#states[i] = state;
      const isLonger = found === null || state > found.length;
      if (state === pattern.text.length && isLonger) found = pattern.text;
    }
    return found;
  }

  /** Length of the longest suffix of the text that is the beginning of a stop string. */
  #openLength(): number {
    let longest = 0;
    for (const [i, pattern] of this.#patterns.entries()) {
      longest = Math.max(longest, pattern.openLength(this.#states[i] ?? 0));
    }
    return longest;
  }

  /** The held-back text, when the output ends for another reason. */
  flush(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }

  /** An independent copy in the same state. */
  fork(): StopStrings {
    const copy = new StopStrings(this.#stops, { includeInOutput: this.#include });
    copy.#states.splice(0, this.#states.length, ...this.#states);
    copy.#held = this.#held;
    return copy;
  }
}
