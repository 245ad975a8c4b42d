/** Chooses which sequences are preempted when blocks run out, and how their contents are kept. */
import { assert } from "#base";
import type { PreemptionMode } from "./plan.ts";
import type { PlanDraft } from "./plan-draft.ts";
import { byPriority } from "./queue.ts";
import type { Sequence } from "./sequence.ts";
import type { SequenceGroup } from "./sequence-group.ts";
import type { TransferEstimates } from "./transfer-estimates.ts";

/**
 * Paused groups first; then the last sample of the group that holds most blocks, where that is more
 * than its share of the pool; then the running sequences of the group that started last or, by
 * policy, of the least urgent one. The last group that runs is preempted one sequence at a time, so
 * that one can always go on; beams, which cannot be split, fit the pool together.
 */
export function chooseVictims(draft: PlanDraft): readonly Sequence[] {
  const paused = choosePaused(draft);
  if (paused.length > 0) return paused;
  const running = draft.state.running.filter((sequence) => !draft.yielding.has(sequence));
  const victim = lastOf(running, draft);
  assert(victim !== undefined, "Cannot make room: no sequence holds blocks");
  const sample = chooseSample(running, victim, draft);
  if (sample !== null) return [sample];
  const { group } = victim;
  const members = running.filter((sequence) => sequence.group === group);
  const isAlone = members.length === running.length;
  return isAlone && group.kind === "samples" ? members.slice(-1) : members;
}

/**
 * The last of several samples of the group that holds most blocks, not more urgent than the victim
 * otherwise chosen; null: no such group holds more than an equal share of the pool.
 */
function chooseSample(
  running: readonly Sequence[],
  { priority }: Sequence,
  draft: PlanDraft,
): Sequence | null {
  const groups = new Map<SequenceGroup, Sequence[]>();
  for (const sequence of running) {
    const members = groups.get(sequence.group);
    if (members === undefined) groups.set(sequence.group, [sequence]);
    else members.push(sequence);
  }
  const { cache, config } = draft.state;
  let most = cache.totalBlocks / groups.size;
  let last: Sequence | null = null;
  for (const [group, members] of groups) {
    if (members.length === 1 || group.kind === "beams") continue;
    if (config.policy === "priority" && group.lead.priority !== priority) continue;
    const blocks = blocksOf(members, draft);
    if (blocks <= most) continue;
    most = blocks;
    last = members.at(-1) ?? null;
  }
  return last;
}

/** Blocks that samples of one group hold; the prompt that they share counts once. */
function blocksOf(members: readonly Sequence[], { state }: PlanDraft): number {
  const { cache, needs } = state;
  let shared = 0;
  let own = 0;
  for (const { blockTable, promptLength, maySharePartialBlock } of members) {
    const promptBlocks = promptLength / cache.blockTokens;
    const full = maySharePartialBlock ? Math.ceil(promptBlocks) : Math.floor(promptBlocks);
    const prompt = needs.held(Math.min(blockTable.length, full));
    shared = Math.max(shared, prompt);
    own += needs.held(blockTable.length) - prompt;
  }
  return shared + own;
}

/**
 * All running sequences of one paused group, the next to be preempted; none: no such group runs.
 */
export function choosePaused(draft: PlanDraft): readonly Sequence[] {
  const paused = draft.state.running.filter(
    (sequence) => sequence.group.paused && !draft.yielding.has(sequence),
  );
  const victim = lastOf(paused, draft);
  return paused.filter(({ group }) => group === victim?.group);
}

/** The sequence that started last or, by policy, is the least urgent. */
function lastOf(running: readonly Sequence[], { state }: PlanDraft): Sequence | undefined {
  let last = running.at(-1);
  if (state.config.policy !== "priority") return last;
  for (const sequence of running) {
    if (last === undefined || byPriority(last, sequence) < 0) last = sequence;
  }
  return last;
}

/**
 * Whether victims are swapped to host memory or recomputed: as configured, and by measured costs;
 * recomputed where host memory has no room, or costs are unknown.
 */
export function chooseMode(draft: PlanDraft, victims: readonly Sequence[]): PreemptionMode {
  const { config, estimates } = draft.state;
  if (config.preemption === "recompute" || areSamplingBeams(victims)) return "recompute";
  const blocks = draft.swapBlocks(victims);
  if (blocks > draft.hostBlocks) return "recompute";
  if (config.preemption === "swap") return "swap";
  const swapMs = estimates?.swapMs(blocks) ?? null;
  const recomputeMs = estimates === null ? null : recomputeTime(estimates, victims);
  return swapMs !== null && recomputeMs !== null && swapMs < recomputeMs ? "swap" : "recompute";
}

/**
 * Whether a step samples for these beams: their tables are regrouped when it ends, and must be on
 * the device then.
 */
function areSamplingBeams(victims: readonly Sequence[]): boolean {
  return victims.some(({ group, awaitedTokens }) => group.kind === "beams" && awaitedTokens > 0);
}

/** Recomputing the whole prompt once, and the tokens of each sequence behind it. */
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
