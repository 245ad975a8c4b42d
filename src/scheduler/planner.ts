/** How a step is chosen. Everything here reads the scheduler's state; nothing changes it. */
import { AdmissionPlanner } from "./admission-planner.ts";
import type { StepPlan } from "./plan.ts";
import { PlanDraft, type PlanningState } from "./plan-draft.ts";
import { RunningPlanner } from "./running-planner.ts";

/** The next step: running sequences first, then, unless one had to be preempted, waiting ones. */
export function planStep(state: PlanningState): StepPlan {
  const draft = new PlanDraft(state);
  const running = new RunningPlanner(draft);
  running.planAll();
  new AdmissionPlanner(draft).planAll();
  return draft.finish();
}
