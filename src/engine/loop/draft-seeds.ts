import type { DraftSampling, DraftSeed, DraftShape } from "#speculative";
import type { ItemResult } from "./model-runner.ts";
import type { SequenceTask } from "./sequence-task.ts";
import { isSampling, type StepItem } from "./step-item.ts";

/** What the drafter beside the model shall make behind one item of a step. */
export interface WantedDraft {
  /** Of the item in its plan. */
  readonly place: number;
  readonly shape: DraftShape;
}

/** Asks the sequences of a step that begins for what they want drafted behind it. */
export function wantedDrafts(items: readonly StepItem[]): readonly WantedDraft[] {
  const wanted: WantedDraft[] = [];
  items.forEach((item, place) => {
    const shape = isSampling(item) ? (item.task.drafter?.begin() ?? null) : null;
    if (shape !== null) wanted.push({ place, shape });
  });
  return wanted;
}

/** Where the draft behind an item begins; null: none is needed, since the item's request ends. */
export function seedOf(
  { planned, task, lastRow }: StepItem,
  { shape }: WantedDraft,
  { path, result }: { readonly path: readonly number[]; readonly result: ItemResult | undefined },
): DraftSeed | null {
  const { sequence, start, count } = planned;
  const { stop, generatedTokens } = sequence;
  const root = result?.tokenIds.at(-1);
  if (result === undefined || root === undefined || result.failure !== undefined) return null;
  const isEnd = stop.stopTokenIds.has(root) || (!stop.ignoreEos && stop.eosTokenIds.has(root));
  // A draft of one token gives two at least.
  const room = (stop.maxTokens ?? Number.POSITIVE_INFINITY) - generatedTokens;
  if (isEnd || room - result.tokenIds.length < 2) return null;
  const rows = new Int32Array(path.length);
  for (let depth = 0; depth < rows.length; depth++) rows[depth] = lastRow + (path[depth] ?? 0);
  return {
    rows,
    position: start + count - 1,
    root,
    shape,
    sampling: samplingOf(task),
  };
}

/** How the item is sampled; null: greedily. */
export function samplingOf({ sampling }: SequenceTask): DraftSampling | null {
  if (sampling === null || sampling.params.temperature === 0) return null;
  const { temperature, topK, topP, minP } = sampling.params;
  return { temperature, topK, topP, minP, seed: sampling.seed };
}
