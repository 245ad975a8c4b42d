import { assert } from "#base";
import type { StepInput } from "../step-input.ts";

/** The largest step: `DecoderLimits`. */
export interface ParentRowLimits {
  readonly stepTokensMax: number;
  readonly sequencesMax: number;
  readonly treeTokensMax: number;
}

/** Letters: `ParentRows.of`. */
export interface StepParents {
  readonly parents: Int32Array;
  readonly contexts: Int32Array;
}

/** Which row of a step each row comes behind. The arrays are reused. */
export class ParentRows {
  readonly #limits: ParentRowLimits;
  readonly #parents: Int32Array;
  readonly #contexts: Int32Array;

  constructor(limits: ParentRowLimits) {
    this.#limits = limits;
    this.#parents = new Int32Array(limits.stepTokensMax);
    this.#contexts = new Int32Array(limits.sequencesMax);
  }

  /**
   * `parents` [T]: the row of the token before each row's, or `stepTokensMax` + s for the first row
   * of sequence s, whose token before is in the cache. `contexts` [S]: how many tokens of each
   * sequence are in the cache before the step. Both are 0 for padding up to `padded`.
   */
  of(step: StepInput, padded: Pick<StepInput, "tokens" | "sequences"> = step): StepParents {
    const { tokens, sequences, queryStarts, positions, contextLengths, treeStarts } = step;
    const parents = this.#parents;
    parents.fill(0, tokens, padded.tokens);
    this.#contexts.fill(0, sequences, padded.sequences);
    for (let s = 0; s < sequences; s++) {
      const [first = 0, end = 0] = queryStarts.subarray(s, s + 2);
      this.#contexts[s] = positions[first] ?? 0;
      // Behind the root of a tree whose rows are sequences of their own.
      const nodes =
        treeStarts === undefined ? 0 : (contextLengths[s] ?? 0) - 1 - (treeStarts[s] ?? 0);
      parents[first] =
        nodes > 0 ? this.#parentOf(step, first, first - nodes) : this.#limits.stepTokensMax + s;
      for (let row = first + 1; row < end; row++) parents[row] = this.#parentOf(step, row, first);
    }
    return { parents, contexts: this.#contexts };
  }

  /** The last row that is one position before `row` and not hidden from it. */
  #parentOf({ positions, treeMask }: StepInput, row: number, first: number): number {
    if (treeMask === undefined) return row - 1;
    const words = Math.ceil(this.#limits.treeTokensMax / 32);
    const position = (positions[row] ?? 0) - 1;
    for (let parent = row - 1; parent >= first; parent--) {
      const place = parent - first;
      const word = place < words * 32 ? (treeMask[row * words + (place >> 5)] ?? 0) : 0;
      if (positions[parent] === position && ((word >>> (place & 31)) & 1) === 0) return parent;
    }
    assert(false, `Cannot find what row ${row} comes behind`);
  }
}
