/** How a request's tokens are drafted. */
import type { EngineRequest, WantedShape } from "#engine/protocol";
import { scopeKey } from "#kvcache";
import type { Sequence } from "#scheduler";
import {
  type DraftShape,
  type EarlierLookup,
  type EarlierOutputs,
  Lookup,
  LookupSource,
} from "#speculative";
import { GrammarDrafts } from "./grammar-drafts.ts";
import { LookupDrafts } from "./lookup-drafts.ts";
import { MixedDrafts } from "./mixed-drafts.ts";
import { ModelDrafts } from "./model-drafts.ts";
import type { SequenceDrafter } from "./sequence-drafter.ts";

/** What drafts of all requests share. */
export interface DraftSources {
  /** Most drafted tokens on a path of a tree; 0: drafts are chains. */
  readonly treePathMax: number;
  /** Outputs of earlier requests, by scope. Default: none are kept. */
  readonly earlierOutputs?: EarlierOutputs | null;
  /** Makes all drafters, whatever requests want. Default: requests say what drafts. */
  readonly makeDrafter?: () => SequenceDrafter;
}

/** Tokens of a prompt's end that are kept with an output: its first tokens follow these. */
const PROMPT_END_TOKENS = 32;

/**
 * Makes the drafter of each sequence of a request. Null: nothing is drafted, as for searches.
 */
export function drafterMaker(
  request: EngineRequest,
  sources: DraftSources,
): (() => SequenceDrafter) | null {
  const { params, draftShape: wanted } = request;
  if (params.beamWidth !== null || wanted === null) return null;
  if (sources.makeDrafter !== undefined) return sources.makeDrafter;
  const make = openDrafterMaker(request, wanted, sources);
  if (params.structuredOutput === null) return make;
  return () => new GrammarDrafts(make(), wanted.forcedMax ?? wanted.length);
}

/**
 * Keeps what a sequence said, for later requests of its scope alone: salts keep apart what is
 * drafted as they keep apart what is cached, so that no one's speed tells of another's output.
 */
export function keepOutput(
  { cacheSalt, promptTokenIds }: EngineRequest,
  { tokens }: Sequence,
  { earlierOutputs = null }: DraftSources,
): void {
  if (earlierOutputs === null || tokens.length === promptTokenIds.length) return;
  const start = Math.max(0, promptTokenIds.length - PROMPT_END_TOKENS);
  earlierOutputs.add(scopeOf(cacheSalt), tokens.view(start, tokens.length));
}

function scopeOf(cacheSalt: string | null): string {
  return scopeKey({ loraId: null, cacheSalt });
}

/** The same without a grammar. */
function openDrafterMaker(
  { promptTokenIds, predictedTokenIds, cacheSalt }: EngineRequest,
  wanted: WantedShape,
  { treePathMax, earlierOutputs = null }: DraftSources,
): () => SequenceDrafter {
  const isTree = wanted.width > 1 && treePathMax > 0;
  const shape = isTree
    ? { length: Math.min(wanted.length, treePathMax), width: wanted.width }
    : { length: wanted.length, width: 1 };
  const network = wanted.kind === "lookup" ? null : () => new ModelDrafts(wanted.kind, shape);
  const { besideMax = 0 } = wanted;
  if (network !== null && besideMax === 0) return network;
  const scope = scopeOf(cacheSalt);
  const earlier: EarlierLookup | null =
    earlierOutputs === null ? null : (tail, most) => earlierOutputs.find(scope, tail, most);
  // All sequences look up in one index of the prompt.
  const source = new LookupSource(promptTokenIds, predictedTokenIds, earlier);
  const kind = predictedTokenIds === null ? "lookup" : "prediction";
  const lookup = (own: DraftShape) => new LookupDrafts(kind, new Lookup(source), own);
  if (network === null) return () => lookup(shape);
  const beside = { length: besideMax, width: 1 };
  return () => new MixedDrafts(lookup(beside), network(), shape.length);
}
