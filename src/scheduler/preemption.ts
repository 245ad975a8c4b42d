/** Who gives way when blocks run out, and what becomes of the contents. */
import { assert } from "#base";
import type { PreemptionMode } from "./plan.ts";
import type { PlanDraft } from "./plan-draft.ts";
import { byPriority } from "./queue.ts";
import type { Sequence } from "./sequence.ts";
import type { TransferEstimates } from "./transfer-estimates.ts";

/**
 * The running sequences of the group that started last or, by policy, of the least urgent one;
 * paused groups first. The last group that runs gives way piece by piece, so that one sequence can
 * always go on; beams, which cannot be split, fit the pool together.
 */
export function chooseVictims(draft: PlanDraft): readonly Sequence[] {
  const paused = choosePaused(draft);
  if (paused.length > 0) return paused;
  const running = draft.state.running.filter((sequence) => !draft.yielding.has(sequence));
  const victim = lastOf(running, draft);
  assert(victim !== undefined, "Cannot make room: no sequence holds blocks");
  const { group } = victim;
  const members = running.filter((sequence) => sequence.group === group);
  const isAlone = members.length === running.length;
  return isAlone && group.kind === "samples" ? members.slice(-1) : members;
}

/** All running sequences of one paused group, the next to give way; none: no such group runs. */
export function choosePaused(draft: PlanDraft): readonly Sequence[] {
  const paused = draft.state.running.filter(
    (sequence) => sequence.group.paused && !draft.yielding.has(sequence),
  );
  const victim = lastOf(paused, draft);
  return paused.filter(({ group }) => group === victim?.group);
}

/** Who started last or, by policy, is the least urgent. */
function lastOf(running: readonly Sequence[], { state }: PlanDraft): Sequence | undefined {
  let last = running.at(-1);
  if (state.config.policy !== "priority") return last;
  for (const sequence of running) {
    if (last === undefined || byPriority(last, sequence) < 0) last = sequence;
  }
  return last;
}

/**
 * Whether victims keep their contents in host memory or are computed again: as configured, and by
 * what is measured; computed again where there is no room, or not enough is known.
 */
export function chooseMode(draft: PlanDraft, victims: readonly Sequence[]): PreemptionMode {
  const { config, estimates } = draft.state;
  if (config.preemption === "recompute" || isDrawingBeams(victims)) return "recompute";
  const blocks = draft.swapBlocks(victims);
  if (blocks > draft.hostBlocks) return "recompute";
  if (config.preemption === "swap") return "swap";
  const swapMs = estimates?.swapMs(blocks) ?? null;
  const recomputeMs = estimates === null ? null : recomputeTime(estimates, victims);
  return swapMs !== null && recomputeMs !== null && swapMs < recomputeMs ? "swap" : "recompute";
}

/** Their tables change hands when the step under way ends: they must be on the device then. */
function isDrawingBeams(victims: readonly Sequence[]): boolean {
  return victims.some(({ group, awaitedTokens }) => group.kind === "beams" && awaitedTokens > 0);
}

/** Of the whole prompt once, and of what each sequence has behind it. */
function recomputeTime(estimates: TransferEstimates, victims: readonly Sequence[]): number | null {
  let sum = 0;
  for (const [place, { promptLength, computedTokens }] of victims.entries()) {
    const start = place === 0 ? 0 : Math.min(promptLength, computedTokens);
    const ms = estimates.recomputeMs(computedTokens - start, start);
    if (ms === null) return null;
    sum += ms;
  }
  return sum;
}
