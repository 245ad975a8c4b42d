import { assert } from "#base";
import type { StepInput } from "#models";
import { drawFromAllRows, rowsToRead, type StepItem } from "./step-item.ts";

export interface StepBuilderLimits {
  readonly stepTokensMax: number;
  readonly sequencesMax: number;
  readonly blocksPerSequenceMax: number;
  readonly blockTokens: number;
}

/** Writes plans into flat arrays, which are reused. */
export class StepBuilder {
  readonly #limits: StepBuilderLimits;
  readonly #tokenIds: Int32Array;
  readonly #tokenSources: Int32Array;
  readonly #positions: Int32Array;
  readonly #slots: Int32Array;
  readonly #queryStarts: Int32Array;
  readonly #contextLengths: Int32Array;
  readonly #blockTables: Int32Array;

  constructor(limits: StepBuilderLimits) {
    const { stepTokensMax, sequencesMax, blocksPerSequenceMax } = limits;
    this.#limits = limits;
    this.#tokenIds = new Int32Array(stepTokensMax);
    this.#tokenSources = new Int32Array(stepTokensMax);
    this.#positions = new Int32Array(stepTokensMax);
    this.#slots = new Int32Array(stepTokensMax);
    this.#queryStarts = new Int32Array(sequencesMax + 1);
    this.#contextLengths = new Int32Array(sequencesMax);
    this.#blockTables = new Int32Array(sequencesMax * blocksPerSequenceMax);
  }

  /** The step as input of a device. Valid until the next call. */
  build(items: readonly StepItem[]): StepInput {
    let tokens = 0;
    let queryLengthMax = 0;
    let contextLengthMax = 0;
    let row = 0;
    let awaits = false;
    for (const item of items) {
      const { sequence, start, count } = item.planned;
      // A fork computes nothing: it samples from another item's row.
      if (count === 0) continue;
      const table = sequence.blockTable.view();
      this.#queryStarts[row] = tokens;
      this.#contextLengths[row] = start + count;
      this.#blockTables.set(table, row * this.#limits.blocksPerSequenceMax);
      awaits = this.#fillTokens(item, tokens) || awaits;
      this.#fillSlots(table, { start, count, first: tokens });
      tokens += count;
      queryLengthMax = Math.max(queryLengthMax, count);
      contextLengthMax = Math.max(contextLengthMax, start + count);
      row++;
    }
    this.#queryStarts[row] = tokens;
    const draws = drawFromAllRows(items);
    const wantedRows = draws ? null : rowsToRead(items);
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
      draws,
      ...(wantedRows !== null && { wantedRows }),
      ...(awaits && { tokenSources: this.#tokenSources }),
    };
  }

  /** Writes the item's ids from row `first` on. Whether the last one is still being sampled. */
  #fillTokens({ planned, task }: StepItem, first: number): boolean {
    const { sequence, start, count } = planned;
    const { tokens } = sequence;
    const end = start + count;
    const known = Math.min(end, tokens.length);
    if (count === 1 && known === end) this.#tokenIds[first] = tokens.get(start);
    else if (known > start) this.#tokenIds.set(tokens.view(start, known), first);
    this.#tokenSources.fill(-1, first, first + count);
    if (known === end) return false;
    assert(known === end - 1 && task.drawnRow >= 0, "Cannot compute a token that nobody draws");
    this.#tokenIds[first + count - 1] = 0;
    this.#tokenSources[first + count - 1] = task.drawnRow;
    return true;
  }

  /** Writes positions `start` up to `start + count`, and the slot of each, from row `first` on. */
  #fillSlots(
    table: Int32Array,
    { start, count, first }: { readonly start: number; readonly count: number; first: number },
  ): void {
    const { blockTokens } = this.#limits;
    for (let place = 0; place < count; place++) {
      const position = start + place;
      const block = table[Math.floor(position / blockTokens)] ?? 0;
      this.#positions[first + place] = position;
      this.#slots[first + place] = block * blockTokens + (position % blockTokens);
    }
  }
}
