/**
 * One stop string as an automaton. Its state is the length of the longest end of the text that it
 * begins with. A character of text costs O(1) on average, however the text was made.
 * Source: D. E. Knuth, J. H. Morris, V. R. Pratt 1977, "Fast pattern matching in strings".
 */
export class StopPattern {
  readonly text: string;
  /** By state: the longest state below it that the same text is in as well. */
  readonly #fallback: Int32Array;

  /** `text` is not empty. Costs time and four bytes for each of its characters. */
  constructor(text: string) {
    this.text = text;
    this.#fallback = new Int32Array(text.length + 1);
    let state = 0;
    for (let i = 1; i < text.length; i++) {
      state = this.#after(state, text.charCodeAt(i));
      this.#fallback[i + 1] = state;
    }
  }

  /** The state after one more UTF-16 unit; `text.length` where a match ends with it. */
  advance(state: number, unit: number): number {
    const from = state === this.text.length ? this.#below(state) : state;
    return this.#after(from, unit);
  }

  /** What may still become a match: below `text.length`, also after one that did not count. */
  openLength(state: number): number {
    return state === this.text.length ? this.#below(state) : state;
  }

  #after(from: number, unit: number): number {
    let state = from;
    while (state > 0 && this.text.charCodeAt(state) !== unit) state = this.#below(state);
    return this.text.charCodeAt(state) === unit ? state + 1 : 0;
  }

  #below(state: number): number {
    return this.#fallback[state] ?? 0;
  }
}

/** Built once for all sequences of a request, which share its list of stop strings. */
const known = new WeakMap<readonly string[], readonly StopPattern[]>();

/** The automata of a request's stop strings. The list is not changed afterwards. */
export function stopPatterns(stops: readonly string[]): readonly StopPattern[] {
  const built = known.get(stops) ?? stops.map((stop) => new StopPattern(stop));
  known.set(stops, built);
  return built;
}
