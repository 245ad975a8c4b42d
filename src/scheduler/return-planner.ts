/** Plans which sequences return from host memory in a step. */
import type { PlanDraft } from "./plan-draft.ts";
import type { RunningPlanner } from "./running-planner.ts";
import type { Sequence } from "./sequence.ts";

/** Plans the return of swapped sequences, group by group. */
export class ReturnPlanner {
  readonly #draft: PlanDraft;
  readonly #running: RunningPlanner;

  constructor(draft: PlanDraft, running: RunningPlanner) {
    this.#draft = draft;
    this.#running = running;
  }

  /** The swapped sequences of each group, in order of return. Paused groups stay where they are. */
  units(): readonly (readonly Sequence[])[] {
    const units = new Map<object, Sequence[]>();
    for (const sequence of this.#draft.state.swapped) {
      if (sequence.group.paused) continue;
      const unit = units.get(sequence.group);
      if (unit === undefined) units.set(sequence.group, [sequence]);
      else unit.push(sequence);
    }
    return [...units.values()];
  }

  /**
   * All of a unit resume, or none, and no later sequence may overtake them. Where no other group
   * runs and the pool cannot take all, as many samples resume as fit, one at least.
   */
  tryReturn(unit: readonly Sequence[]): boolean {
    const [first] = unit;
    // Tokens that a step still samples for them must arrive before they resume.
    if (first === undefined || unit.some(({ awaitedTokens }) => awaitedTokens > 0)) return false;
    if (this.#fits(unit)) {
      this.#return(unit);
      return true;
    }
    if (first.group.kind === "beams" || this.#draft.othersRun(first)) return false;
    for (const sequence of unit) {
      if (!this.#fits([sequence])) return false;
      this.#return([sequence]);
    }
    return true;
  }

  #fits(unit: readonly Sequence[]): boolean {
    const draft = this.#draft;
    if (unit.length > draft.budget) return false;
    const blocks = draft.swapBlocks(unit);
    // No headroom when no other group runs, so that one sequence can always run.
    const isAlone = unit.every((sequence) => !draft.othersRun(sequence));
    const room = isAlone ? 0 : draft.headroomFor(unit.length);
    const needed = blocks + room + draft.reservedBlocks;
    const fits = draft.seatsFor(unit) <= draft.seats && needed <= draft.ledger.available;
    if (!fits) draft.lacksRoom = true;
    return fits;
  }

  /** They compute in this very step, as far as there are blocks: moves come before computing. */
  #return(unit: readonly Sequence[]): void {
    const draft = this.#draft;
    draft.seats -= draft.seatsFor(unit);
    draft.ledger.take(draft.swapBlocks(unit));
    draft.returning.push(...unit);
    for (const sequence of unit) {
      const count = this.#running.countOf(sequence);
      const blocks = this.#running.blocksOf(sequence, count) + draft.reservedBlocks;
      if (count > 0 && blocks <= draft.ledger.available) this.#running.add(sequence, count);
      else draft.reservedBlocks += draft.blocksBehind(sequence, sequence.computedTokens);
    }
  }
}
