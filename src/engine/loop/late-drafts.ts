import type { DraftSeed, LateTrees, TokenTree } from "#speculative";

/** A draft whose tokens are not known yet. */
type LateTree = TokenTree & Required<Pick<TokenTree, "late">>;

/**
 * Drafts whose tokens the device has before the host: the step that verifies them begins at once,
 * and the host reads them with what that step samples. One step's at a time.
 */
export class LateDrafts {
  #newest: { readonly trees: readonly LateTree[]; readonly late: LateTrees } | null = null;

  /** A tree for each seed. Those before were read. */
  add(seeds: readonly DraftSeed[], late: LateTrees): readonly TokenTree[] {
    const trees = seeds.map(({ root }, seed): LateTree => {
      const { parents, depths } = late.nodesOf(seed);
      const tokens = new Int32Array(parents.length);
      tokens[0] = root;
      const sources = new Int32Array(parents.length - 1);
      for (let at = 0; at < sources.length; at++) sources[at] = late.sourceOf(seed, at + 1);
      return { tokens, parents, depths, late: { sources, known: false } };
    });
    this.#newest = { trees, late };
    return trees;
  }

  /** Fills in the tokens, if any are not known. Rejects where the device fails. */
  async read(): Promise<void> {
    const newest = this.#newest;
    if (newest === null) return;
    this.#newest = null;
    try {
      const found = await newest.late.take();
      newest.trees.forEach(({ tokens }, place) => {
        tokens.set(found[place] ?? [], 1);
      });
    } finally {
      // Where it failed they stay zeros: a draft may be any tokens.
      for (const { late } of newest.trees) late.known = true;
    }
  }
}
