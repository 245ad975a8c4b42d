import { type BlockTable, type HeldBy, Occupation } from "#kvcache/contents";

/**
 * Measures how long device blocks are held. Costs a few additions when a table or a transfer
 * changes, and nothing per step.
 */
export class OccupationBook {
  readonly #nowMs: () => number;
  #totalBlockMs = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Of all sequences and transfers since the start, each up to its last change. */
  get totalBlockMs(): number {
    return this.#totalBlockMs;
  }

  note(occupation: Occupation, by: HeldBy, blocks: number): void {
    this.#totalBlockMs += occupation.note(by, blocks, this.#nowMs());
  }

  /** Call when the blocks of a table have changed: all of its groups of layers count. */
  noteTable({ occupation, parts }: BlockTable): void {
    let blocks = 0;
    for (const { length, droppedFrom, droppedTo, swapped } of parts) {
      if (!swapped) blocks += length - (droppedTo - droppedFrom);
    }
    if (blocks !== occupation.tableBlocks) this.note(occupation, "table", blocks);
  }
}

/** The device blocks that one transfer holds. */
export class TransferHold {
  readonly #book: OccupationBook;
  readonly #by: "received" | "sent";
  readonly #occupation: Occupation;
  #blocks = 0;

  constructor(book: OccupationBook, by: "received" | "sent", occupation = new Occupation()) {
    this.#book = book;
    this.#by = by;
    this.#occupation = occupation;
  }

  /** So many more are held; negative: fewer. */
  add(blocks: number): void {
    if (blocks === 0) return;
    this.#blocks += blocks;
    this.#book.note(this.#occupation, this.#by, this.#blocks);
  }
}
