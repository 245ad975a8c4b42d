/** Plans the work of running sequences in a step, and the preemptions for them. */
import type { PlanDraft } from "./plan-draft.ts";
import { chooseMode, chooseVictims } from "./preemption.ts";
import type { Sequence } from "./sequence.ts";
import type { SequenceGroup } from "./sequence-group.ts";

/** Plans the sequences that hold blocks, in order. */
export class RunningPlanner {
  readonly #draft: PlanDraft;
  /** By beam group checked so far: whether all its sequences sample in this step. */
  #beamsSample: Map<SequenceGroup, boolean> | null = null;

  constructor(draft: PlanDraft) {
    this.#draft = draft;
  }

  /**
   * Plans all running sequences as far as the budget goes; the latest are preempted for the others.
   */
  planAll(): void {
    const draft = this.#draft;
    for (const sequence of draft.state.running) {
      if (draft.budget === 0) return;
      if (sequence.group.paused || sequence.held) continue;
      if (draft.preempts && draft.yielding.has(sequence)) continue;
      const count = this.countOf(sequence);
      if (count === 0) continue;
      // One token in a block of its own: the case of most sequences in most steps.
      if (this.blocksOf(sequence, count) === 0) {
        draft.add(sequence, sequence.computedTokens, count, null);
      } else if (this.#makeRoom(sequence, count)) {
        this.add(sequence, count);
      }
    }
  }

  /** Tokens that the sequence has to compute, as far as it may in this step. */
  countOf(sequence: Sequence): number {
    const start = sequence.computedTokens;
    const count = this.#draft.capped(this.#draft.knownTokens(sequence) - start);
    if (!sequence.isBeam || start + count < sequence.tokens.length) return count;
    const { group } = sequence;
    return !group.forked || this.#sampleTogether(group) ? count : Math.max(0, count - 1);
  }

  /** Blocks that computing `count` tokens takes: new ones, and a copy of a shared one. */
  blocksOf(sequence: Sequence, count: number): number {
    const blocks = this.#draft.newBlocks(sequence, sequence.computedTokens + count);
    return blocks + this.#copies(sequence);
  }

  /** Adds an item for `count` tokens; its blocks must be available. */
  add(sequence: Sequence, count: number): void {
    const { ledger } = this.#draft;
    const start = sequence.computedTokens;
    if (this.#copies(sequence) > 0) ledger.copy(sequence.blockTable, start);
    ledger.take(this.#draft.newBlocks(sequence, start + count));
    this.#draft.add(sequence, start, count, null);
  }

  /** How many shared blocks must be copied before the sequence's next position is written. */
  #copies(sequence: Sequence): number {
    if (!sequence.maySharePartialBlock) return 0;
    return this.#draft.ledger.copiesFor(sequence.blockTable, sequence.computedTokens);
  }

  /**
   * Preempts until `count` tokens have their blocks; false when that preempted the sequence itself.
   */
  #makeRoom(sequence: Sequence, count: number): boolean {
    const draft = this.#draft;
    while (this.blocksOf(sequence, count) > draft.ledger.available) {
      const victims = chooseVictims(draft);
      draft.preempt(victims, chooseMode(draft, victims));
      if (draft.yielding.has(sequence)) return false;
    }
    return true;
  }

  /**
   * A search chooses among the continuations of all its beams at once: they sample in the same step
   * or not at all. Those that resume after a preemption wait for the others one token short of it.
   */
  #sampleTogether(group: SequenceGroup): boolean {
    this.#beamsSample ??= new Map();
    const known = this.#beamsSample.get(group);
    if (known !== undefined) return known;
    const beams = group.live;
    const samples =
      beams.length <= this.#draft.budget &&
      beams.every(
        ({ state, tokens, computedTokens }) =>
          state.phase !== "waiting" && computedTokens === tokens.length - 1,
      );
    this.#beamsSample.set(group, samples);
    return samples;
  }
}
