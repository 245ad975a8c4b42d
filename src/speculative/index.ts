/**
 * speculative: drafted tokens, which a step verifies several of at a time. The output is that of a
 * run without them, whatever is drafted.
 *
 *   token-tree.ts     drafts of one sequence, and the path that sampled tokens confirm
 *   lookup.ts         drafts that are looked up in texts: no weights
 *   draft-length.ts   how much to draft
 *   drafter.ts        the contract of networks that draft beside a model
 *
 * @module
 */
export { DraftLength, DraftRest, type DraftShape } from "./draft-length.ts";
export type { Drafter, DraftSeed } from "./drafter.ts";
export { Lookup, LookupSource, LookupText, type TokenSource } from "./lookup.ts";
export {
  chainOf,
  checkTree,
  confirmedPath,
  firstBranchTokens,
  hideBranches,
  isChain,
  pathTo,
  type TokenTree,
  type TreeRows,
  treeOf,
} from "./token-tree.ts";
