/** Plans drafted tokens: what is left of a step, once everything else has its place. */
import type { PlannedSequence } from "./plan.ts";
import type { PlanDraft } from "./plan-draft.ts";
import { generatedTokensMax } from "./stop.ts";

/**
 * Gives each decoding sequence in turn as many of its drafted tokens as there is room for: first
 * its likeliest continuation, and when all have theirs, the others. Drafts take no block that a
 * prompt under way will need, and preempt no sequence.
 */
export function planDrafts(draft: PlanDraft): void {
  const { items, state } = draft;
  if (!state.drafts || !items.some(({ sequence }) => sequence.draftTokens > 0)) return;
  const rows = { left: state.sampledRowsMax - sampledRows(draft) };
  for (const place of items.keys()) {
    addDrafts(draft, place, rows, ({ sequence }) => sequence.likelyTokens);
  }
  for (const place of items.keys()) {
    addDrafts(draft, place, rows, ({ sequence }) => sequence.draftTokens);
  }
}

/** Drafts of one item, up to `most` in all, as far as there is room for more than it has. */
function addDrafts(
  draft: PlanDraft,
  place: number,
  rows: { left: number },
  most: (item: PlannedSequence) => number,
): void {
  const { items, ledger } = draft;
  const item = items[place];
  if (item === undefined) return;
  const { sequence, start, count, drafted: before } = item;
  const room = Math.min(draft.budget, rows.left);
  let drafted = Math.min(wantedTokens(draft, item), most(item), before + room);
  const end = start + count;
  const blocks = (): number =>
    draft.newBlocks(sequence, end + drafted) - draft.newBlocks(sequence, end + before);
  while (drafted > before && blocks() > ledger.available - draft.reservedBlocks) drafted--;
  if (drafted <= before) return;
  ledger.take(blocks());
  draft.budget -= drafted - before;
  draft.drafted += drafted - before;
  rows.left -= drafted - before;
  items[place] = { ...item, drafted };
}

/** Rows that are sampled without drafts, those of forks included. */
function sampledRows({ items, forkedRows }: PlanDraft): number {
  return items.filter(({ samples }) => samples).length + forkedRows;
}

/** Drafted tokens that could be of use: the row of each samples a token behind it. */
function wantedTokens({ state }: PlanDraft, item: PlannedSequence): number {
  const { sequence, samples, count } = item;
  const { draftTokens, stop, promptLength, generatedTokens, awaitedTokens } = sequence;
  const decodes = samples && sequence.state.phase === "decoding" && !sequence.isBeam;
  if (draftTokens === 0 || !decodes || awaitedTokens > 0 || count > 1) return 0;
  const { contextTokensMax, needs } = state;
  const room = generatedTokensMax(stop, { promptLength, contextTokensMax }) - generatedTokens;
  return Math.min(draftTokens, room - 1, needs.chunkTokens - count);
}
