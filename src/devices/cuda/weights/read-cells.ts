/** The protocol between a pool of reading threads and its threads. */

/** States of a cell; cells are idle at first. */
export const CELL = { idle: 0, wanted: 1, read: 2, tooShort: 3, failed: 4, closed: 5 } as const;

/** Data that the thread is started with. */
export interface ReadThreadData {
  /** [cells] i32: states, which both sides wait for. */
  readonly states: SharedArrayBuffer;
  /** [cells, 3] f64: descriptor of an open file, first byte, bytes. */
  readonly jobs: SharedArrayBuffer;
  /** Memory of each cell. */
  readonly addresses: readonly bigint[];
  readonly cellBytes: number;
  /** The cells that this thread fills, in turn. */
  readonly mine: readonly number[];
}
