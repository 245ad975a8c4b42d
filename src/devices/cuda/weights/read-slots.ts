/** The protocol between a pool of reading threads and its threads. */

/** States of a slot; slots are idle at first. */
export const SLOT = { idle: 0, wanted: 1, read: 2, tooShort: 3, failed: 4, closed: 5 } as const;

/** Data that the thread is started with. */
export interface ReadThreadData {
  /** [slots] i32: states, which both sides wait for. */
  readonly states: SharedArrayBuffer;
  /** [slots, 3] f64: descriptor of an open file, first byte, bytes. */
  readonly jobs: SharedArrayBuffer;
  /** Memory of each slot. */
  readonly addresses: readonly bigint[];
  readonly slotBytes: number;
  /** The slots that this thread fills, in turn. */
  readonly mine: readonly number[];
}
