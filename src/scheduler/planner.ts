/** How a step is chosen. Everything here reads the scheduler's state; nothing changes it. */
import { AdmissionPlanner } from "./admission-planner.ts";
import type { StepPlan } from "./plan.ts";
import { PlanDraft, type PlanningState } from "./plan-draft.ts";
import { byPriority } from "./queue.ts";
import { ReturnPlanner } from "./return-planner.ts";
import { RunningPlanner } from "./running-planner.ts";

/** The next step: running sequences first, then, unless one had to be preempted, waiting ones. */
export function planStep(state: PlanningState): StepPlan {
  const draft = new PlanDraft(state);
  const running = new RunningPlanner(draft);
  running.planAll();
  // Whoever lost its blocks comes back before anyone new takes them.
  if (!draft.preempts) planWaiting(draft, new ReturnPlanner(draft, running));
  return draft.finish();
}

/**
 * Strictly in order: who does not fit holds up all behind. Those whose contents are in host memory
 * come first; by priority, before those that are no more urgent.
 */
function planWaiting(draft: PlanDraft, returns: ReturnPlanner): void {
  const admissions = new AdmissionPlanner(draft);
  const units = [...returns.units()];
  const isByPriority = draft.state.config.policy === "priority";
  const comesFirst = (unit: (typeof units)[number], than: Parameters<typeof byPriority>[1]) =>
    !isByPriority || unit.every((sequence) => byPriority(sequence, than) < 0);
  for (const sequence of draft.state.waiting) {
    while (units[0] !== undefined && comesFirst(units[0], sequence)) {
      if (!draft.hasRoom || !returns.tryReturn(units[0])) return;
      units.shift();
    }
    if (!draft.hasRoom || !admissions.tryAdmit(sequence)) return;
  }
  for (const unit of units) if (!draft.hasRoom || !returns.tryReturn(unit)) return;
}
