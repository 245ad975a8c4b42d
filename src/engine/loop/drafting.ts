import { assert } from "#base";
import type { LoopStats } from "#engine/protocol";
import type { Scheduler, SequenceUpdate } from "#scheduler";
import type { ItemResult } from "./model-runner.ts";
import type { SequenceTask } from "./sequence-task.ts";

type DraftCounts = Pick<
  LoopStats,
  "drafts" | "draftedTokens" | "acceptedTokens" | "acceptedPerPosition"
>;

/** Proposes drafts to the scheduler as sequences grow, and counts what became of them. */
export class Drafting {
  readonly #scheduler: Scheduler;
  readonly #counts = { drafts: 0, draftedTokens: 0, acceptedTokens: 0 };
  readonly #perPosition: number[] = [];

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  counts(): DraftCounts {
    return { ...this.#counts, acceptedPerPosition: [...this.#perPosition] };
  }

  /** Takes note of a step's tokens of a sequence, and of the draft of what follows them. */
  grown({ sequence, tokenIds }: SequenceUpdate, task: SequenceTask, result?: ItemResult): void {
    const { drafter } = task;
    if (drafter === null) return;
    const { drafted = 0, draft: made = null } = result ?? {};
    if (drafted > 0) {
      const accepted = tokenIds.length - 1;
      drafter.verified(drafted, accepted);
      assert(task.draft !== null, "Cannot count a draft that is not there");
      const depths = task.draft.depths.subarray(0, 1 + drafted);
      this.#count({ drafted, accepted, depth: Math.max(...depths) });
    }
    task.draft = sequence.finished ? null : drafter.next(sequence, made);
    const drafts = (task.draft?.tokens.length ?? 1) - 1;
    this.#scheduler.propose(sequence.id, drafts, Math.min(drafts, drafter.likelyTokens));
  }

  /** `depth`: of the deepest drafted node. */
  #count({ drafted, accepted, depth }: Record<"drafted" | "accepted" | "depth", number>): void {
    this.#counts.drafts++;
    this.#counts.draftedTokens += drafted;
    this.#counts.acceptedTokens += accepted;
    while (this.#perPosition.length < depth) this.#perPosition.push(0);
    for (let place = 0; place < accepted; place++) {
      this.#perPosition[place] = (this.#perPosition[place] ?? 0) + 1;
    }
  }
}
