/** How a request's tokens are drafted. */
import type { EngineRequest, WantedShape } from "#engine/protocol";
import { Lookup, LookupSource } from "#speculative";
import { GrammarDrafts } from "./grammar-drafts.ts";
import { LookupDrafts } from "./lookup-drafts.ts";
import { ModelDrafts } from "./model-drafts.ts";
import type { SequenceDrafter } from "./sequence-drafter.ts";

/**
 * Makes the drafter of each sequence of a request. `treePathMax`: most drafted tokens on a path of
 * a tree; 0: drafts are chains. Null: nothing is drafted, as for searches.
 */
export function drafterMaker(
  request: EngineRequest,
  treePathMax: number,
): (() => SequenceDrafter) | null {
  const { params, draftShape: wanted } = request;
  if (params.beamWidth !== null || wanted === null) return null;
  const make = openDrafterMaker(request, wanted, treePathMax);
  if (params.structuredOutput === null) return make;
  return () => new GrammarDrafts(make(), wanted.forcedMax ?? wanted.length);
}

/** The same without a grammar. */
function openDrafterMaker(
  { promptTokenIds, predictedTokenIds }: EngineRequest,
  wanted: WantedShape,
  treePathMax: number,
): () => SequenceDrafter {
  const isTree = wanted.width > 1 && treePathMax > 0;
  const shape = isTree
    ? { length: Math.min(wanted.length, treePathMax), width: wanted.width }
    : { length: wanted.length, width: 1 };
  if (wanted.kind !== "lookup") return () => new ModelDrafts(wanted.kind, shape);
  // All sequences look up in one index of the prompt.
  const source = new LookupSource(promptTokenIds, predictedTokenIds);
  const kind = predictedTokenIds === null ? "lookup" : "prediction";
  return () => new LookupDrafts(kind, new Lookup(source), shape);
}
