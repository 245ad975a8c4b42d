/**
 * speculative: drafted tokens, which a step verifies several of at a time. The output is that of a
 * run without them, whatever is drafted.
 *
 *   token-tree.ts     drafts of one sequence, and the path that sampled tokens confirm
 *   lookup.ts         drafts that are looked up in texts: no weights
 *   draft-length.ts   how much to draft
 *
 * @module
 */
export { DraftLength, type DraftShape } from "./draft-length.ts";
export { Lookup, LookupSource, LookupText, type TokenSource } from "./lookup.ts";
export {
  chainOf,
  checkTree,
  confirmedPath,
  hideBranches,
  isChain,
  pathTo,
  type TokenTree,
  type TreeRows,
  treeOf,
} from "./token-tree.ts";
