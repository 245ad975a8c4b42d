/** Who gives way when blocks run out, and what becomes of the contents. */
import { assert } from "#base";
import type { PreemptionMode } from "./plan.ts";
import type { PlanDraft } from "./plan-draft.ts";
import { byPriority } from "./queue.ts";
import type { Sequence } from "./sequence.ts";

/**
 * The running sequences of the group that started last or, by policy, of the least urgent one. The
 * last group that runs gives way piece by piece, so that one sequence can always go on; beams,
 * which cannot be split, fit the pool together.
 */
export function chooseVictims(draft: PlanDraft): readonly Sequence[] {
  const running = draft.state.running.filter((sequence) => !draft.yielding.has(sequence));
  let victim = running.at(-1);
  if (draft.state.config.policy === "priority") {
    for (const sequence of running) {
      if (victim === undefined || byPriority(victim, sequence) < 0) victim = sequence;
    }
  }
  assert(victim !== undefined, "Cannot make room: no sequence holds blocks");
  const { group } = victim;
  const members = running.filter((sequence) => sequence.group === group);
  const isAlone = members.length === running.length;
  return isAlone && group.kind === "samples" ? members.slice(-1) : members;
}

/** Whether victims keep their contents in host memory or are computed again. */
export function chooseMode(_draft: PlanDraft, _victims: readonly Sequence[]): PreemptionMode {
  return "recompute";
}
