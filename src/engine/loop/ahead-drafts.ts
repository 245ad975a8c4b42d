/** Drafts that the device begins behind a step before the host has read what it sampled. */
import { type AheadSeed, type Drafter, isChain, type LateChains } from "#speculative";
import { samplingOf, type WantedDraft } from "./draft-seeds.ts";
import { isSampling, type StepItem } from "./step-item.ts";

/**
 * Enqueues the drafts that a step's items want, where the device can tell alone what is accepted
 * and the host has no part in what is sampled behind it: all are chains, of rows without edits.
 * Null: they are made when the host has read the step.
 */
export function startAhead(
  drafter: Drafter,
  items: readonly StepItem[],
  wanted: readonly WantedDraft[],
): LateChains | null {
  if (drafter.ahead === undefined || wanted.length === 0) return null;
  const seeds: AheadSeed[] = [];
  const rows = firstRows(items);
  for (const { place, shape } of wanted) {
    const [item, sampled] = [items[place], rows[place]];
    if (item === undefined || sampled === undefined || !isPlain(item)) return null;
    const { start, count, drafted } = item.planned;
    const position = start + count - 1;
    const sampling = samplingOf(item.task);
    seeds.push({ row: item.lastRow, sampled, drafted, position, shape, sampling });
  }
  return drafter.ahead(seeds);
}

/** Those of some seeds, by their places among all. */
export function chosenChains(chains: LateChains, places: readonly number[]): LateChains {
  return {
    sourceOf: (seed, place) => chains.sourceOf(places[seed] ?? 0, place),
    take: async () => {
      const all = await chains.take();
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

function isPlain({ planned: { drafted }, task: { draft, sampling } }: StepItem): boolean {
  if (sampling?.edits !== false) return false;
  return drafted === 0 || (draft !== null && isChain(draft, 1 + drafted));
}
