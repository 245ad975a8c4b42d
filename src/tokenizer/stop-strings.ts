/** Finds stop strings in text that comes in pieces. */

export interface StopStringOptions {
  /** Keep the stop string at the end of the output. */
  readonly includeInOutput: boolean;
}

export interface StopResult {
  /** Text to show now. */
  readonly text: string;
  /** The stop string that ended the output, or null. After one, nothing may be pushed. */
  readonly stop: string | null;
}

interface Match {
  readonly stop: string;
  readonly start: number;
  readonly end: number;
}

/** The match that ends first after `from`; of several that end there, the longest. */
function earliestMatch(text: string, from: number, stops: readonly string[]): Match | null {
  let best: Match | null = null;
  for (const stop of stops) {
    const start = text.indexOf(stop, Math.max(0, from - stop.length + 1));
    if (start < 0) continue;
    const end = start + stop.length;
    if (best === null || end < best.end || (end === best.end && start < best.start)) {
      best = { stop, start, end };
    }
  }
  return best;
}

/** Length of the longest end of `text` that a stop string begins with. */
function openLength(text: string, stops: readonly string[]): number {
  let longest = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(stop.slice(0, length))) longest = length;
    }
  }
  return longest;
}

/**
 * Watches one sequence's text. Only new text is searched. When the stop string is to be left out,
 * text that could be its beginning is held back: never more than the longest stop string less one.
 */
export class StopStrings {
  readonly #stops: readonly string[];
  readonly #include: boolean;
  readonly #longest: number;
  /** The newest text, enough to see a stop string that began in it. */
  #tail = "";
  /** How much of the tail's end was not returned yet. */
  #held = 0;

  constructor(stops: readonly string[], options: StopStringOptions) {
    this.#stops = stops;
    this.#include = options.includeInOutput;
    this.#longest = Math.max(0, ...stops.map((stop) => stop.length));
  }

  /**
   * Takes new text, gives what can be shown. `armed` false (before `minTokens`): a stop string that
   * ends in this text does not count.
   */
  push(text: string, armed = true): StopResult {
    if (this.#longest === 0) return { text, stop: null };
    const all = this.#tail + text;
    const shown = this.#tail.length - this.#held;
    const match = armed ? earliestMatch(all, this.#tail.length, this.#stops) : null;
    if (match !== null) {
      this.#held = 0;
      this.#tail = "";
      return { text: all.slice(shown, this.#include ? match.end : match.start), stop: match.stop };
    }
    this.#held = this.#include ? 0 : openLength(all, this.#stops);
    this.#tail = all.slice(Math.max(0, all.length - this.#longest + 1));
    return { text: all.slice(shown, all.length - this.#held), stop: null };
  }

  /** What is held, when the output ends for another reason. */
  flush(): string {
    const text = this.#tail.slice(this.#tail.length - this.#held);
    this.#held = 0;
    return text;
  }

  /** An independent watcher in the same state. */
  fork(): StopStrings {
    const copy = new StopStrings(this.#stops, { includeInOutput: this.#include });
    copy.#tail = this.#tail;
    copy.#held = this.#held;
    return copy;
  }
}
