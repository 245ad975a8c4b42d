import type { DeviceTensor, MovesMark } from "#devices";

/** Hidden states of a step, of the part before. */
export interface GivenHidden {
  /** Enqueues their copy to the device. Done: they are there. */
  take(rows: DeviceTensor): MovesMark;
  /** `HiddenPlace.follows`. */
  readonly follows: boolean;
}
