import type { EngineRequest } from "#engine/protocol";
import type { Sequence } from "#scheduler";
import {
  DraftLength,
  type DraftShape,
  Lookup,
  LookupSource,
  type TokenTree,
  treeOf,
} from "#speculative";

/** Nodes of a tree at most, its root counted: bits of its rows in a tree mask. */
export const TREE_NODES_MAX = 64;

/** Drafts the tokens of one sequence, and remembers how well that went. */
export class SequenceDrafter {
  readonly #lookup: Lookup;
  readonly #width: number;
  readonly #length: DraftLength;
  /** Tokens of the last draft's first continuation. */
  #first = 0;

  constructor(lookup: Lookup, { length, width }: DraftShape) {
    this.#lookup = lookup;
    this.#width = width;
    this.#length = new DraftLength(length);
  }

  /** Tokens of the last draft's likeliest continuation. */
  get likelyTokens(): number {
    return this.#first;
  }

  /** Whether the next step may have a draft: it is planned when all tokens are known. */
  get active(): boolean {
    return this.#first > 0;
  }

  /** What may follow the sequence's newest token, the root; null: nothing is likely. */
  next({ tokens }: Sequence): TokenTree | null {
    const length = this.#length.next();
    const width = this.#width;
    const branches = length === 0 ? [] : this.#lookup.draft(tokens, { length, width });
    this.#first = branches[0]?.length ?? 0;
    if (this.#first === 0) return null;
    return treeOf(tokens.get(tokens.length - 1), branches, TREE_NODES_MAX);
  }

  /** Records that of `drafted` nodes, the first ones of the draft, a path was accepted. */
  verified(drafted: number, accepted: number): void {
    this.#length.verified(Math.min(drafted, this.#first), accepted);
  }
}

/** Null: nothing is drafted, as for searches and grammars. */
export function lookupSourceOf(request: EngineRequest): LookupSource | null {
  const { params, draftShape, promptTokenIds, predictedTokenIds } = request;
  const isOpen = params.beamWidth === null && params.structuredOutput === null;
  return isOpen && draftShape !== null ? new LookupSource(promptTokenIds, predictedTokenIds) : null;
}

/** `treePathMax`: most drafted tokens on a path of a tree; 0: drafts are chains. */
export function drafterOf(
  source: LookupSource | null,
  wanted: DraftShape | null,
  treePathMax: number,
): SequenceDrafter | null {
  if (source === null || wanted === null) return null;
  const isTree = wanted.width > 1 && treePathMax > 0;
  const shape = isTree
    ? { ...wanted, length: Math.min(wanted.length, treePathMax) }
    : { ...wanted, width: 1 };
  return new SequenceDrafter(new Lookup(source), shape);
}
