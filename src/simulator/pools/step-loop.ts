/** The turn of a node's steps on the simulated clock, round a production scheduler. */
import { isEmptyPlan, type Scheduler, type SequenceUpdate, type StepPlan } from "#scheduler";
import type { SimClock } from "../sim-clock.ts";

export interface StepLoopParts {
  readonly clock: SimClock;
  readonly scheduler: Scheduler;
  /** A plan has begun: its blocks are held. Returns what the step takes. */
  readonly begun: (plan: StepPlan) => number;
  /** Its tokens came. */
  readonly committed: (updates: readonly SequenceUpdate[]) => void;
}

/** Only which tokens are equal matters, and nothing compares sampled ones. */
const TOKEN: readonly number[] = [0];

export class StepLoop {
  readonly #parts: StepLoopParts;
  #busy = false;
  #busyMs = 0;
  #steps = 0;
  /** One array for all steps, which are millions. */
  readonly #sampled: (readonly number[] | null)[] = [];

  constructor(parts: StepLoopParts) {
    this.#parts = parts;
  }

  /** Time that steps took since the start. */
  get busyMs(): number {
    return this.#busyMs;
  }

  get steps(): number {
    return this.#steps;
  }

  /** Work came: a step begins behind all events of this time, unless one is under way. */
  wake(): void {
    if (this.#busy) return;
    this.#busy = true;
    this.#parts.clock.after(0, this.#begin);
  }

  readonly #begin = (): void => {
    const { clock, scheduler, begun } = this.#parts;
    this.#busy = false;
    const plan = scheduler.plan();
    if (isEmptyPlan(plan)) return;
    scheduler.begin(plan, clock.nowMs());
    const ms = begun(plan);
    this.#busy = true;
    this.#busyMs += ms;
    this.#steps++;
    clock.after(ms, () => this.#commit(plan));
  };

  #commit(plan: StepPlan): void {
    const { clock, scheduler, committed } = this.#parts;
    const sampled = this.#sampled;
    sampled.length = 0;
    for (const { samples } of plan.items) sampled.push(samples ? TOKEN : null);
    committed(scheduler.commit(plan, sampled, clock.nowMs()));
    this.#begin();
  }
}
