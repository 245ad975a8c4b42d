/** The turn of a node's steps on the simulated clock, round a production scheduler. */
import { assert } from "#base";
import { isEmptyPlan, type Scheduler, type SequenceUpdate, type StepPlan } from "#scheduler";
import type { SimClock } from "../sim-clock.ts";

export interface StepLoopParts {
  readonly clock: SimClock;
  readonly scheduler: Scheduler;
  /** A plan has begun: its blocks are held. Returns what the step takes. */
  readonly begun: (plan: StepPlan) => number;
  /** Its tokens came. */
  readonly committed: (updates: readonly SequenceUpdate[], atMs: number) => void;
  /**
   * For a step that has begun and ends at `endMs`: when the last of the steps ends of which it is
   * sure that, unless `catchUp` is called, they follow it and no other node notices them before.
   * `endMs`: no further step is sure. Default: none ever is.
   */
  readonly sureUntil?: (plan: StepPlan, endMs: number) => number;
}

/** A step between `begin` and `commit`. */
interface BegunStep {
  readonly plan: StepPlan;
  readonly endMs: number;
}

/** Only which tokens are equal matters, and nothing compares sampled ones. */
const TOKEN: readonly number[] = [0];

/**
 * Steps that are sure run together, at the end of the last, each with its own time: a fleet of 64
 * nodes whose steps take turns finds no node's state in the processor's caches, and most steps are
 * of two or three sequences. The scheduler plans, begins and commits each of them all the same.
 */
export class StepLoop {
  readonly #parts: StepLoopParts;
  #step: BegunStep | null = null;
  /** The end of the last step that is sure, where an event waits. */
  #sureMs = 0;
  #cancel: () => void = () => undefined;
  #wakes = false;
  #busyMs = 0;
  #passed = 0;
  /** One array for all steps, which are millions. */
  readonly #sampled: (readonly number[] | null)[] = [];

  constructor(parts: StepLoopParts) {
    this.#parts = parts;
  }

  /** Time that steps took since the start. */
  get busyMs(): number {
    return this.#busyMs;
  }

  /** Steps that ended without an event of their own. */
  get passed(): number {
    return this.#passed;
  }

  /**
   * Work is about to come: steps that should have ended by now do, and only the one under way is
   * sure. One that ends at this very time has ended before the work comes.
   */
  catchUp(): void {
    const nowMs = this.#parts.clock.nowMs();
    let step = this.#step;
    if (step === null || step.endMs === this.#sureMs) return;
    while (step.endMs <= nowMs && step.endMs < this.#sureMs) step = this.#pass(step);
    this.#cancel();
    this.#await(step.endMs);
  }

  /** Work came: a step begins behind all events of this time, unless one is under way. */
  wake(): void {
    if (this.#step !== null || this.#wakes) return;
    this.#wakes = true;
    this.#parts.clock.after(0, this.#begin);
  }

  readonly #begin = (): void => {
    this.#wakes = false;
    const step = this.#beginAt(this.#parts.clock.nowMs());
    if (step === null) return;
    this.#await(this.#parts.sureUntil?.(step.plan, step.endMs) ?? step.endMs);
  };

  /** Null: there is nothing to do. */
  #beginAt(nowMs: number): BegunStep | null {
    const { scheduler, begun } = this.#parts;
    this.#step = null;
    const plan = scheduler.plan();
    if (isEmptyPlan(plan)) return null;
    scheduler.begin(plan, nowMs);
    const ms = begun(plan);
    this.#busyMs += ms;
    this.#step = { plan, endMs: nowMs + ms };
    return this.#step;
  }

  #await(sureMs: number): void {
    this.#sureMs = sureMs;
    this.#cancel = this.#parts.clock.atExactly(sureMs, this.#end);
  }

  /** All steps that were sure end. */
  readonly #end = (): void => {
    let step = this.#step;
    if (step === null) return;
    while (step.endMs < this.#sureMs) step = this.#pass(step);
    assert(step.endMs === this.#sureMs, "A step took another time than was foreseen");
    this.#commit(step);
    this.#begin();
  };

  /** Ends a step that another one follows. */
  #pass(step: BegunStep): BegunStep {
    this.#passed++;
    this.#commit(step);
    const next = this.#beginAt(step.endMs);
    assert(next !== null, "No step follows one that was to be followed");
    return next;
  }

  #commit({ plan, endMs }: BegunStep): void {
    const { scheduler, committed } = this.#parts;
    const { items } = plan;
    const sampled = this.#sampled;
    // Setting a length costs as much as a short step's loop.
    if (sampled.length > items.length) sampled.length = items.length;
    for (let at = 0; at < items.length; at++) sampled[at] = items[at]?.samples ? TOKEN : null;
    committed(scheduler.commit(plan, sampled, endMs), endMs);
  }
}
