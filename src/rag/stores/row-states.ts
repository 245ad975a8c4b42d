/** What the rows of a corpus in a folder are used for, and their sets of attributes. */
import type { AttributeSet } from "./chunk-table.ts";
import type { Row } from "./vector-file.ts";

/** `buried`: its chunk was removed, and the index of vectors still has it. */
export type RowState = "free" | "recent" | "indexed" | "buried";

const STATES: readonly RowState[] = ["free", "recent", "indexed", "buried"];
const [FREE = 0, RECENT = 0, INDEXED = 0, BURIED = 0] = STATES.keys();
const ROWS_AT_FIRST = 1024;

export class RowStates {
  readonly counts: Record<RowState, number> = { free: 0, recent: 0, indexed: 0, buried: 0 };
  #states = new Uint8Array(ROWS_AT_FIRST);
  #attributes = new Int32Array(ROWS_AT_FIRST);
  #end = 0;
  /** No row before this one is free. */
  #firstFree = 0;
  /** Null: to be gathered again. */
  #recent: Row[] | null = null;

  /** Rows with chunks. */
  get used(): number {
    return this.counts.recent + this.counts.indexed;
  }

  /** Rows from this one on were never used. */
  get end(): number {
    return this.#end;
  }

  /** Rows that hold no chunk and that no index has, in ascending order. They remain free. */
  free(count: number): Row[] {
    const rows: Row[] = [];
    for (let row = this.#firstFree; rows.length < count; row++) {
      if (row >= this.#end || this.#states[row] === FREE) rows.push(row);
    }
    return rows;
  }

  of(row: Row): RowState {
    return STATES[this.#states[row] ?? FREE] ?? "free";
  }

  attributesOf(row: Row): AttributeSet {
    return this.#attributes[row] ?? -1;
  }

  /** A chunk was stored in a free row; the index may have it already. */
  use(row: Row, attributes: AttributeSet, state: "recent" | "indexed" = "recent"): void {
    this.#set(row, state === "recent" ? RECENT : INDEXED);
    this.#attributes[row] = attributes;
  }

  /** The index took a recent row in. */
  takeIn(row: Row): void {
    this.#set(row, INDEXED);
  }

  /** A row's chunk was removed. */
  clear(row: Row): void {
    this.#set(row, this.#states[row] === INDEXED ? BURIED : FREE);
  }

  /** The index has a row without a chunk. */
  bury(row: Row): void {
    this.#set(row, BURIED);
  }

  /** There is no index any more: its rows are recent, or free. */
  forgetIndex(): void {
    for (let row = 0; row < this.#end; row++) {
      if (this.#states[row] === INDEXED) this.#set(row, RECENT);
      if (this.#states[row] === BURIED) this.#set(row, FREE);
    }
  }

  /** Recent rows in ascending order. */
  get recent(): readonly Row[] {
    this.#recent ??= this.rows("recent");
    return this.#recent;
  }

  /** Rows of a state in ascending order. */
  rows(state: RowState): Row[] {
    const wanted = STATES.indexOf(state);
    const rows: Row[] = [];
    for (let row = 0; row < this.#end; row++) {
      if (this.#states[row] === wanted) rows.push(row);
    }
    return rows;
  }

  /** A byte for each row: 1 where it has a chunk of which `accepts` holds. */
  accepted(accepts: (attributes: AttributeSet) => boolean): Uint8Array {
    const accepted = new Uint8Array(this.#end);
    for (let row = 0; row < this.#end; row++) {
      const state = this.#states[row];
      if (state !== RECENT && state !== INDEXED) continue;
      accepted[row] = Number(accepts(this.attributesOf(row)));
    }
    return accepted;
  }

  #set(row: Row, state: number): void {
    if (row >= this.#states.length) this.#grow(row + 1);
    if (row >= this.#end) {
      this.counts.free += row + 1 - this.#end;
      this.#end = row + 1;
    }
    const former = this.#states[row];
    this.counts[this.of(row)]--;
    this.#states[row] = state;
    this.counts[this.of(row)]++;
    if (state === RECENT || former === RECENT) this.#recent = null;
    if (state === FREE) this.#firstFree = Math.min(this.#firstFree, row);
    while (this.#firstFree < this.#end && this.#states[this.#firstFree] !== FREE) this.#firstFree++;
  }

  #grow(rows: number): void {
    const length = Math.max(rows, this.#states.length * 2);
    const states = new Uint8Array(length);
    states.set(this.#states);
    this.#states = states;
    const attributes = new Int32Array(length);
    attributes.set(this.#attributes);
    this.#attributes = attributes;
  }
}
