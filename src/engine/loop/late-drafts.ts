import { chainOf, type DraftSeed, type LateChains, type TokenTree } from "#speculative";

/** A draft whose tokens are not known yet. */
type LateTree = TokenTree & Required<Pick<TokenTree, "late">>;

/**
 * Drafts whose tokens the device has before the host: the step that verifies them begins at once,
 * and the host reads them with what that step samples. One step's at a time.
 */
export class LateDrafts {
  #newest: { readonly trees: readonly LateTree[]; readonly chains: LateChains } | null = null;

  /** A chain for each seed. Those before were read. */
  add(seeds: readonly DraftSeed[], chains: LateChains): readonly TokenTree[] {
    const trees = seeds.map(({ root, shape: { length } }, seed): LateTree => {
      const sources = Int32Array.from({ length }, (_, place) => chains.sourceOf(seed, place));
      const { tokens, parents, depths } = chainOf(root, new Int32Array(length));
      return { tokens, parents, depths, late: { sources, known: false } };
    });
    this.#newest = { trees, chains };
    return trees;
  }

  /** Fills in the tokens, if any are not known. Rejects where the device fails. */
  async read(): Promise<void> {
    const newest = this.#newest;
    if (newest === null) return;
    this.#newest = null;
    try {
      const found = await newest.chains.take();
      newest.trees.forEach(({ tokens }, place) => {
        tokens.set(found[place] ?? [], 1);
      });
    } finally {
      // Where it failed they stay zeros: a draft may be any tokens.
      for (const { late } of newest.trees) late.known = true;
    }
  }
}
