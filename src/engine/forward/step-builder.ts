import { assert } from "#base";
import type { BlockTable } from "#kvcache";
import type { StepInput, StepTables } from "#models";
import { drawFromAllRows, rowsToRead, type StepItem } from "./step-item.ts";

export interface StepBuilderLimits {
  readonly stepTokensMax: number;
  readonly sequencesMax: number;
  readonly blocksPerSequenceMax: number;
  readonly blockTokens: number;
  /** Groups of layers, each with a block table per sequence. */
  readonly groups: number;
}

/** Writes plans into flat arrays, which are reused. */
export class StepBuilder {
  readonly #limits: StepBuilderLimits;
  readonly #tokenIds: Int32Array;
  readonly #tokenSources: Int32Array;
  readonly #positions: Int32Array;
  readonly #tables: readonly StepTables[];
  readonly #queryStarts: Int32Array;
  readonly #contextLengths: Int32Array;

  constructor(limits: StepBuilderLimits) {
    const { stepTokensMax, sequencesMax, blocksPerSequenceMax } = limits;
    this.#limits = limits;
    this.#tokenIds = new Int32Array(stepTokensMax);
    this.#tokenSources = new Int32Array(stepTokensMax);
    this.#positions = new Int32Array(stepTokensMax);
    this.#queryStarts = new Int32Array(sequencesMax + 1);
    this.#contextLengths = new Int32Array(sequencesMax);
    this.#tables = Array.from({ length: limits.groups }, () => ({
      slots: new Int32Array(stepTokensMax),
      blockTables: new Int32Array(sequencesMax * blocksPerSequenceMax),
    }));
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
      this.#queryStarts[row] = tokens;
      this.#contextLengths[row] = start + count;
      awaits = this.#fillTokens(item, tokens) || awaits;
      const at = { row, start, count, first: tokens };
      for (let place = 0; place < count; place++) this.#positions[tokens + place] = start + place;
      for (const [group, tables] of this.#tables.entries()) {
        this.#fillTable(tables, sequence.blockTable.parts[group] ?? sequence.blockTable, at);
      }
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
      tables: this.#tables,
      queryStarts: this.#queryStarts,
      contextLengths: this.#contextLengths,
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

  /** Writes an item's blocks, and the slot of each of its tokens. */
  #fillTable({ slots, blockTables }: StepTables, table: BlockTable, at: ItemPlace): void {
    const { blockTokens, blocksPerSequenceMax } = this.#limits;
    const blocks = table.view();
    blockTables.set(blocks, at.row * blocksPerSequenceMax);
    for (let place = 0; place < at.count; place++) {
      const position = at.start + place;
      const block = blocks[Math.floor(position / blockTokens)] ?? 0;
      slots[at.first + place] = block * blockTokens + (position % blockTokens);
    }
  }
}

/** Where an item's tokens are in a step. */
interface ItemPlace {
  /** Its sequence among those of the step. */
  readonly row: number;
  /** Its positions: from `start` on. */
  readonly start: number;
  readonly count: number;
  /** Its first token among those of the step. */
  readonly first: number;
}
