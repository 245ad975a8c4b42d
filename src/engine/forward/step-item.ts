import { assert } from "#base";
import type { SequenceTask } from "#engine/loop";
import type { PlannedSequence, StepPlan } from "#scheduler";

/** One item of a plan, its task, and where its rows are in the step. */
export interface StepItem {
  readonly planned: PlannedSequence;
  readonly task: SequenceTask;
  readonly firstRow: number;
  /** The row that its next token is sampled from; a fork's is another item's. */
  readonly lastRow: number;
}

/** The plan's items in order, `tasks[i]` with item i. */
export function itemsOf(plan: StepPlan, tasks: readonly SequenceTask[]): readonly StepItem[] {
  const items: StepItem[] = [];
  let firstRow = 0;
  for (const planned of plan.items) {
    const { count, forkOf } = planned;
    const task = tasks[items.length];
    assert(task !== undefined, "Cannot compute an item without a task");
    const lead = forkOf === null ? null : items[forkOf];
    const lastRow = lead?.lastRow ?? firstRow + count - 1;
    items.push({ planned, task, firstRow, lastRow });
    firstRow += count;
  }
  return items;
}

/**
 * Whether every row of the step belongs to one item that samples from it and needs nothing else:
 * such steps are uniform, and a device may run them as CUDA graphs.
 */
export function drawFromAllRows(items: readonly StepItem[]): boolean {
  return items.every((item) => {
    const { count, forkOf } = item.planned;
    return count === 1 && forkOf === null && isDrawing(item) && !wantsPromptRows(item);
  });
}

/** Whether this step computes prompt rows whose scores, logits or hidden states are needed. */
export function wantsPromptRows({ planned, task }: StepItem): boolean {
  const { promptLogprobs, promptLogits, hiddenPool } = task;
  if (hiddenPool !== null) return true;
  const wants = promptLogprobs !== null || promptLogits !== null;
  return wants && planned.start < planned.sequence.promptLength;
}

/** Whether a token is sampled for it. */
export function isDrawing({ planned, task }: StepItem): boolean {
  return planned.samples && task.hiddenPool === null && task.beamCandidates === 0;
}

/**
 * Whether a beam search needs its likeliest tokens. A fork shares its lead's row and candidates.
 */
export function isSearching({ planned, task }: StepItem): boolean {
  return planned.samples && task.beamCandidates > 0 && planned.forkOf === null;
}

/** Rows that are read by a step that does not sample from all, each once; null: it may be any. */
export function rowsToRead(items: readonly StepItem[]): Int32Array | null {
  if (items.some(wantsPromptRows)) return null;
  const wanted = [...items.filter(isDrawing), ...items.filter(isSearching)];
  return Int32Array.from(new Set(wanted.map(({ lastRow }) => lastRow)));
}
