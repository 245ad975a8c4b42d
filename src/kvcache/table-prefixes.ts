import { type BlockTable, NO_MATCH, type PrefixMatch } from "#kvcache/contents";
import type { OccupationBook } from "#kvcache/levels";
import type { PrefixReuse } from "./prefix-reuse.ts";
import type { TableBlocks } from "./table-blocks.ts";

/** The parts of `TablePrefixes`. */
export interface TablePrefixesParts {
  readonly tables: TableBlocks;
  readonly reuse: PrefixReuse;
  readonly occupation: OccupationBook;
}

/** Fills tables with stored prefixes, in all groups of layers at once. */
export class TablePrefixes {
  readonly #parts: TablePrefixesParts;

  constructor(parts: TablePrefixesParts) {
    this.#parts = parts;
  }

  /** See `KvCache.hold`. */
  hold(table: BlockTable, match: PrefixMatch): void {
    const { tables, reuse } = this.#parts;
    const parts = tables.partsOf(table);
    reuse.hold(table, match, tables.unseen(match.tokens, 0));
    for (let group = 1; group < parts.length; group++) {
      const unseen = tables.unseen(match.tokens, group);
      reuse.hold(parts[group] ?? table, match.further[group - 1] ?? NO_MATCH, unseen);
    }
  }

  /** See `KvCache.settle`. */
  settle(table: BlockTable, match: PrefixMatch): void {
    const { reuse, occupation } = this.#parts;
    reuse.settle(table, match, true);
    // A token counts once as found, however many groups there are.
    for (let group = 1; group < table.parts.length; group++) {
      reuse.settle(table.parts[group] ?? table, match.further[group - 1] ?? NO_MATCH, false);
    }
    occupation.noteTable(table);
  }

  /** See `KvCache.extend`. */
  extend(table: BlockTable, tokens: Int32Array, blocks: number): void {
    const { tables, reuse, occupation } = this.#parts;
    for (const part of tables.partsOf(table)) {
      reuse.extend(part, { scope: part.scope, tokens, keys: part.keys }, blocks);
    }
    occupation.noteTable(table);
  }
}
