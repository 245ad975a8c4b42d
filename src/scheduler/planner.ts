/** Plans a step. Everything here reads the scheduler's state; nothing changes it. */
import { AdmissionPlanner } from "./admission-planner.ts";
import { planDrafts } from "./draft-planner.ts";
import type { StepPlan } from "./plan.ts";
import { PlanDraft, type PlanningState } from "./plan-draft.ts";
import { chooseMode, choosePaused } from "./preemption.ts";
import { byPriority } from "./queue.ts";
import { ReturnPlanner } from "./return-planner.ts";
import { RunningPlanner } from "./running-planner.ts";
import { Sequence } from "./sequence.ts";
import type { SequenceGroup } from "./sequence-group.ts";

/** Swapped sequences of one group, which resume together. */
type Unit = readonly Sequence[];

/** The next step: running sequences first, then, unless one had to be preempted, waiting ones. */
export function planStep(state: PlanningState): StepPlan {
  const draft = new PlanDraft(state);
  const running = new RunningPlanner(draft);
  running.planAll();
  // Preempted sequences resume before new ones take their blocks.
  if (draft.preempts) return draft.finish();
  if (!waits(state)) {
    planDrafts(draft);
    return draft.finish();
  }
  planWaiting(draft, new ReturnPlanner(draft, running));
  // A step either preempts or admits: sequences that need blocks of paused groups start a step
  // later.
  if (draft.lacksRoom && !draft.starts) preemptPaused(draft);
  if (!draft.preempts) planDrafts(draft);
  return draft.finish();
}

/** Whether any sequence waits: in most steps of a server that keeps up none does. */
function waits({ waiting, swapped }: PlanningState): boolean {
  for (const _ of waiting) return true;
  for (const _ of swapped) return true;
  return false;
}

/** In order; a sequence that does not fit holds up all behind it. */
function planWaiting(draft: PlanDraft, returns: ReturnPlanner): void {
  const admissions = new AdmissionPlanner(draft);
  const stranded = strandedBeams(draft);
  for (const beam of stranded) if (draft.budget === 0 || !admissions.tryAdmit(beam)) return;
  const further: (Sequence | Unit)[] = [];
  const starts = (next: Sequence | Unit): boolean => {
    if (draft.budget === 0) return false;
    return next instanceof Sequence ? admissions.tryAdmit(next) : returns.tryReturn(next);
  };
  const running = runningSamples(draft);
  const runsAlready = new Set(running.keys());
  /** False: it does not fit, and no later sequence may overtake it. */
  const place = (next: Sequence | Unit): boolean => {
    const [first, count] = next instanceof Sequence ? [next, 1] : [next[0], next.length];
    if (first === undefined || first.group.sequences.length === 1) return starts(next);
    const { group } = first;
    const runs = (running.get(group) ?? 0) + count;
    if (runs > group.seatsMax(draft.state.config.runningSequencesMax)) return true;
    running.set(group, runs);
    return starts(next);
  };
  let priority: number | null = null;
  for (const next of inOrder(draft, returns, stranded)) {
    const first = next instanceof Sequence ? next : next[0];
    if (first === undefined) continue;
    if (draft.state.config.policy === "priority" && first.priority !== priority) {
      for (const one of further.splice(0)) if (!place(one)) return;
      ({ priority } = first);
    }
    if (runsAlready.has(first.group)) further.push(next);
    else if (!place(next)) return;
  }
  for (const one of further) if (!place(one)) return;
}

/**
 * All waiting sequences, except those of paused groups. Those whose contents are in host memory
 * come first; under the priority policy, before those that are no more urgent.
 */
function* inOrder(
  { state }: PlanDraft,
  returns: ReturnPlanner,
  stranded: ReadonlySet<Sequence>,
): Generator<Sequence | Unit> {
  const units = [...returns.units()];
  const isByPriority = state.config.policy === "priority";
  const comesFirst = (unit: Unit, than: Sequence) =>
    !isByPriority || unit.every((sequence) => byPriority(sequence, than) < 0);
  for (const sequence of state.waiting) {
    if (sequence.group.paused || stranded.has(sequence)) continue;
    while (units[0] !== undefined && comesFirst(units[0], sequence)) {
      yield units[0];
      units.shift();
    }
    yield sequence;
  }
  yield* units;
}

/**
 * Running samples of each request that has several. Further ones let requests pass that do not run
 * yet, and never take all seats.
 */
function runningSamples({ state }: PlanDraft): Map<SequenceGroup, number> {
  const counts = new Map<SequenceGroup, number>();
  for (const { group } of state.running) {
    if (group.kind !== "samples" || group.sequences.length === 1) continue;
    counts.set(group, (counts.get(group) ?? 0) + 1);
  }
  return counts;
}

/**
 * Beams that wait while others of their group run. The running ones cannot go on without them: more
 * urgent sequences would wait for the blocks that these hold.
 */
function strandedBeams({ state }: PlanDraft): ReadonlySet<Sequence> {
  const groups = new Set(state.running.filter(({ isBeam }) => isBeam).map(({ group }) => group));
  if (groups.size === 0) return new Set();
  return new Set([...state.waiting].filter(({ group }) => groups.has(group)));
}

/** Preempts paused groups for waiting sequences, last first: one sequence for each that waits. */
function preemptPaused(draft: PlanDraft): void {
  const { waiting, swapped } = draft.state;
  let victims = choosePaused(draft);
  if (victims.length === 0) return;
  let wanted = [...waiting, ...swapped].filter(({ group }) => !group.paused).length;
  while (wanted > 0 && victims.length > 0) {
    draft.preempt(victims, chooseMode(draft, victims));
    wanted -= victims.length;
    victims = choosePaused(draft);
  }
}
