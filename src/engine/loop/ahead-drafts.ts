/** Drafts that the device begins behind a step before the host has read what it sampled. */
import { TREE_NODES_MAX } from "#base";
import type { AheadSeed, Drafter, LateTrees } from "#speculative";
import { samplingOf, type WantedDraft } from "./draft-seeds.ts";
import { isSampling, type StepItem } from "./step-item.ts";

/** Of a sequence without a draft. */
const NO_PARENTS = Int32Array.of(-1);

/**
 * Enqueues the drafts that a step's items want, where the host has no part in what is sampled
 * behind them: no row has edits. Null: they are made when the host has read the step.
 */
export function startAhead(
  drafter: Drafter,
  items: readonly StepItem[],
  wanted: readonly WantedDraft[],
): LateTrees | null {
  if (drafter.ahead === undefined || wanted.length === 0) return null;
  const seeds: AheadSeed[] = [];
  const rows = firstRows(items);
  for (const { place, shape } of wanted) {
    const [item, sampled] = [items[place], rows[place]];
    if (item === undefined || sampled === undefined || !isPlain(item)) return null;
    const { start, count, drafted } = item.planned;
    const position = start + count - 1;
    const sampling = samplingOf(item.task);
    const parents = drafted === 0 ? NO_PARENTS : item.task.draft?.parents;
    if (parents === undefined) return null;
    seeds.push({ row: item.lastRow, sampled, drafted, parents, position, shape, sampling });
  }
  return drafter.ahead(seeds);
}

/** Those of some seeds, by their places among all. */
export function chosenTrees(trees: LateTrees, places: readonly number[]): LateTrees {
  return {
    nodesOf: (seed) => trees.nodesOf(places[seed] ?? 0),
    sourceOf: (seed, node) => trees.sourceOf(places[seed] ?? 0, node),
    take: async () => {
      const all = await trees.take();
      return places.map((place) => all[place] ?? new Int32Array(0));
    },
  };
}

/** The first sampled row of each item that is sampled. */
function firstRows(items: readonly StepItem[]): readonly (number | undefined)[] {
  let row = 0;
  return items.map((item) => {
    if (!isSampling(item)) return undefined;
    const first = row;
    row += 1 + item.planned.drafted;
    return first;
  });
}

function isPlain({ planned: { drafted }, task: { sampling } }: StepItem): boolean {
  return sampling?.edits === false && drafted < TREE_NODES_MAX;
}
