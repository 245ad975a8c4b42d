/** Plans drafted tokens: what is left of a step, once everything else has its place. */
import type { PlannedSequence } from "./plan.ts";
import type { PlanDraft } from "./plan-draft.ts";
import { generatedTokensMax } from "./stop.ts";

/**
 * Gives each decoding sequence in turn as many of its drafted tokens as there is room for. Drafts
 * take no block that a prompt under way will need, and preempt no sequence.
 */
export function planDrafts(draft: PlanDraft): void {
  const { items, state, ledger } = draft;
  if (!state.drafts || !items.some(({ sequence }) => sequence.draftTokens > 0)) return;
  let rows = state.sampledRowsMax - sampledRows(draft);
  for (const [place, item] of items.entries()) {
    const { sequence, start, count } = item;
    let drafted = Math.min(wantedTokens(draft, item), draft.budget, rows);
    const end = start + count;
    const blocks = (): number =>
      draft.newBlocks(sequence, end + drafted) - draft.newBlocks(sequence, end);
    while (drafted > 0 && blocks() > ledger.available - draft.reservedBlocks) drafted--;
    if (drafted <= 0) continue;
    ledger.take(blocks());
    draft.budget -= drafted;
    draft.drafted += drafted;
    rows -= drafted;
    items[place] = { ...item, drafted };
  }
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
