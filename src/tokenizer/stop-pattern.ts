/**
 * One stop string as an automaton. Its state is the length of the longest suffix of the text that
 * is a prefix of the stop string. A character costs O(1) amortized for any text.
 * Source: D. E. Knuth, J. H. Morris, V. R. Pratt 1977, "Fast pattern matching in strings".
 */
export class StopPattern {
  readonly text: string;
  /** By state: the length of the next shorter prefix that the same text also ends with. */
  readonly #fallback: Int32Array;

  /** `text` is not empty. Takes linear time, and four bytes of memory per character. */
  constructor(text: string) {
    this.text = text;
    this.#fallback = new Int32Array(text.length + 1);
    let state = 0;
    for (let i = 1; i < text.length; i++) {
      state = this.#after(state, text.charCodeAt(i));
      this.#fallback[i + 1] = state;
    }
  }

  /** The state after one more UTF-16 unit; `text.length` if a match ends with it. */
  advance(state: number, unit: number): number {
    const from = state === this.text.length ? this.#below(state) : state;
    return this.#after(from, unit);
  }

  /** Length of a possible partial match: below `text.length`, also after an ignored match. */
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
