import { NO_STAGE_TIMES, type StageTimes } from "#engine/protocol";
import type { Moment } from "./moment.ts";

/** Moments of one step at a stage, in their order. */
export interface StepMoments {
  /** The step was begun: the host's clock, in ms. */
  readonly begunMs: number;
  /** Hidden states of the stage before were on this device; null: there is none. */
  readonly arrived: Moment | null;
  readonly computed: Moment;
  /** Hidden states were where the next stage reads them; null: there is none. */
  readonly handed: Moment | null;
  /** `HiddenPlace.follows`. */
  readonly follows: boolean;
}

/** Follows the steps of a stage, and adds up where their time went. */
export class StageWatch {
  #times: StageTimes = NO_STAGE_TIMES;
  /** When the last step was computed. */
  #computedMs = Number.NEGATIVE_INFINITY;

  get times(): StageTimes {
    return this.#times;
  }

  /** Waits for the step, whose predecessor was given before. Rejects with the device's error. */
  async follow({ begunMs, arrived, computed, handed, follows }: StepMoments): Promise<void> {
    const arrivedMs = (await arrived?.reached()) ?? begunMs;
    const computedMs = await computed.reached();
    const handedMs = (await handed?.reached()) ?? computedMs;
    const before = this.#computedMs;
    this.#computedMs = computedMs;
    const { steps, computeMs, waitMs, copyMs } = this.#times;
    this.#times = {
      steps: steps + 1,
      computeMs: computeMs + computedMs - Math.max(arrivedMs, before),
      waitMs: waitMs + (follows ? Math.max(0, arrivedMs - before) : 0),
      copyMs: copyMs + (arrivedMs - begunMs) + (handedMs - computedMs),
    };
  }
}
