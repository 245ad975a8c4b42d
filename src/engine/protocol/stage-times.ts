/** Where the time of a pipeline stage's steps went, since its start. */
export interface StageTimes {
  /** Steps with tokens. */
  readonly steps: number;
  /** Its layers. */
  readonly computeMs: number;
  /**
   * Its device had nothing to compute between two steps that followed each other: the hidden states
   * were not there yet, or at the first stage the next step had not begun.
   */
  readonly waitMs: number;
  /**
   * Copies of hidden states between the device and the host, whether the device computed meanwhile
   * or not.
   */
  readonly copyMs: number;
}

/** Before the first step. */
export const NO_STAGE_TIMES: StageTimes = { steps: 0, computeMs: 0, waitMs: 0, copyMs: 0 };

/** Where a step's hidden states are, in memory that a stage and the next one reach. */
export interface HiddenPlace {
  readonly slot: number;
  readonly bytes: number;
  /** The step began while others were under way: what it waits for is no lack of work. */
  readonly follows: boolean;
}
