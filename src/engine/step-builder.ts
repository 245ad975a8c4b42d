import type { StepInput } from "#models";
import type { StepPlan } from "#scheduler";

export interface StepBuilderLimits {
  readonly stepTokensMax: number;
  readonly sequencesMax: number;
  readonly blocksPerSequenceMax: number;
  readonly blockTokens: number;
}

/** Writes plans as flat arrays, always the same ones. */
export class StepBuilder {
  readonly #limits: StepBuilderLimits;
  readonly #tokenIds: Int32Array;
  readonly #positions: Int32Array;
  readonly #slots: Int32Array;
  readonly #queryStarts: Int32Array;
  readonly #contextLengths: Int32Array;
  readonly #blockTables: Int32Array;

  constructor(limits: StepBuilderLimits) {
    const { stepTokensMax, sequencesMax, blocksPerSequenceMax } = limits;
    this.#limits = limits;
    this.#tokenIds = new Int32Array(stepTokensMax);
    this.#positions = new Int32Array(stepTokensMax);
    this.#slots = new Int32Array(stepTokensMax);
    this.#queryStarts = new Int32Array(sequencesMax + 1);
    this.#contextLengths = new Int32Array(sequencesMax);
    this.#blockTables = new Int32Array(sequencesMax * blocksPerSequenceMax);
  }

  /** The step as a device sees it. Valid until the next call. */
  build(plan: StepPlan): StepInput {
    let tokens = 0;
    let queryLengthMax = 0;
    let contextLengthMax = 0;
    let row = 0;
    for (const { sequence, start, count } of plan.items) {
      // A fork computes nothing: it draws from another item's row.
      if (count === 0) continue;
      this.#queryStarts[row] = tokens;
      this.#contextLengths[row] = start + count;
      this.#blockTables.set(sequence.blockTable.view(), row * this.#limits.blocksPerSequenceMax);
      this.#tokenIds.set(sequence.tokens.view(start, start + count), tokens);
      this.#fillSlots(sequence.blockTable.view(), start, count, tokens);
      tokens += count;
      queryLengthMax = Math.max(queryLengthMax, count);
      contextLengthMax = Math.max(contextLengthMax, start + count);
      row++;
    }
    this.#queryStarts[row] = tokens;
    return {
      tokens,
      sequences: row,
      tokenIds: this.#tokenIds,
      positions: this.#positions,
      slots: this.#slots,
      queryStarts: this.#queryStarts,
      contextLengths: this.#contextLengths,
      blockTables: this.#blockTables,
      queryLengthMax,
      contextLengthMax,
    };
  }

  /** Positions `start` up to `start + count`, and the slot of each, from row `first` on. */
  #fillSlots(table: Int32Array, start: number, count: number, first: number): void {
    const { blockTokens } = this.#limits;
    for (let place = 0; place < count; place++) {
      const position = start + place;
      const block = table[Math.floor(position / blockTokens)] ?? 0;
      this.#positions[first + place] = position;
      this.#slots[first + place] = block * blockTokens + (position % blockTokens);
    }
  }
}
