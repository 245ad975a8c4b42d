/**
 * speculative: drafted tokens, which a step verifies several of at a time. The output is that of a
 * run without them, whatever is drafted.
 *
 *   token-tree.ts     drafts of one sequence, and the path that sampled tokens confirm
 *   lookup.ts         drafts that are looked up in texts: no weights
 *   earlier-outputs.ts  outputs of earlier requests, to look up in, apart by scope
 *   draft-length.ts   how much to draft of one sequence
 *   acceptance.ts     how likely drafted tokens are to be accepted
 *   step-costs.ts     how long steps take
 *   node-budget.ts    how much of all drafts a step verifies
 *   drafter.ts        the contract of networks that draft beside a model
 *
 * @module
 */
export {
  type FollowedBranch,
  KindAcceptance,
  type LikelyBranch,
  SequenceAcceptance,
  type VerifiedDraft,
} from "./acceptance.ts";
export { DraftLength, DraftRest, type DraftShape, UnusedRest } from "./draft-length.ts";
export type { AheadSeed, Drafter, DraftSampling, DraftSeed, LateTrees } from "./drafter.ts";
export { EarlierOutputs } from "./earlier-outputs.ts";
export {
  type EarlierLookup,
  Lookup,
  LookupSource,
  LookupText,
  type TokenSource,
} from "./lookup.ts";
export { type BudgetedStep, budgetOf, type NodeBudget } from "./node-budget.ts";
export {
  CostLine,
  type CostRow,
  lowerQuartile,
  StepCosts,
  type StepSize,
  sizeClass,
} from "./step-costs.ts";
export {
  chainOf,
  checkTree,
  confirmedPath,
  firstBranchTokens,
  hideBranches,
  isChain,
  type LateNodes,
  pathTo,
  type TokenTree,
  type TreeRows,
  treeOf,
} from "./token-tree.ts";
