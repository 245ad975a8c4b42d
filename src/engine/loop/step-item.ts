import { assert } from "#base";
import type { PlannedSequence } from "#scheduler";
import type { SequenceTask } from "./sequence-task.ts";

/** One item of a plan, its task, and where its rows are in the step. */
export interface StepItem {
  readonly planned: PlannedSequence;
  readonly task: SequenceTask;
  readonly firstRow: number;
  /**
   * The row that its next token is sampled from; a fork's is another item's. Rows of its drafted
   * tokens follow.
   */
  readonly lastRow: number;
}

/** A plan's items in order, `tasks[i]` with item i. */
export function itemsOf(
  plan: readonly PlannedSequence[],
  tasks: readonly SequenceTask[],
): readonly StepItem[] {
  const items: StepItem[] = [];
  let firstRow = 0;
  for (const planned of plan) {
    const { count, drafted, forkOf } = planned;
    const task = tasks[items.length];
    assert(task !== undefined, "Cannot compute an item without a task");
    const lead = forkOf === null ? null : items[forkOf];
    const lastRow = lead?.lastRow ?? firstRow + count - 1;
    items.push({ planned, task, firstRow, lastRow });
    firstRow += count + drafted;
  }
  return items;
}

/** Whether this step computes prompt rows whose scores, logits or hidden states are needed. */
export function wantsPromptRows({ planned, task }: StepItem): boolean {
  const { promptLogprobs, promptLogits, hiddenPool } = task;
  if (hiddenPool !== null) return true;
  const wants = promptLogprobs !== null || promptLogits !== null;
  return wants && planned.start < planned.sequence.promptLength;
}

/** Whether a token is sampled for it. */
export function isSampling(item: StepItem): boolean {
  return item.planned.samples && item.task.beamCandidates === 0 && !endsUnsampled(item);
}

/** Whether it ends with its prompt: embeddings, and prompts computed for another engine. */
export function endsUnsampled({ planned, task }: StepItem): boolean {
  return planned.samples && (task.hiddenPool !== null || task.computesOnly);
}

/**
 * Whether a beam search needs its likeliest tokens. A fork shares its lead's row and candidates.
 */
export function isSearching({ planned, task }: StepItem): boolean {
  return planned.samples && task.beamCandidates > 0 && planned.forkOf === null;
}

/** The rows that its tokens are sampled from: the last one, and those of its drafted tokens. */
export function sampledRows({ planned, lastRow }: StepItem): number[] {
  return Array.from({ length: 1 + planned.drafted }, (_, place) => lastRow + place);
}

/** How many rows sampling items have. */
export function rowCount(items: readonly StepItem[]): number {
  return items.reduce((sum, { planned }) => sum + 1 + planned.drafted, 0);
}
