/**
 * base: shared basics, which import nothing.
 *
 *   assert.ts   throws at bugs of this project
 *   errors.ts   failures of callers and of the environment, one catalogue of codes
 *   issue-text.ts   messages about wrong settings
 *   clock.ts    time and timeouts as parameters
 *   foreign-writer.ts   other users that can change a file
 *   int-list.ts a growing list of 32-bit integers
 *   lasting-trouble.ts   when a trouble that comes and goes is told
 *   token-list.ts   the same after an array that lists share
 *   rng.ts      counter-based randomness, keyed by seed and position
 *   gumbel.ts   noise of tokens, keyed by seed, position and token
 *   field-names.ts   the names of a schema's fields; nearest-name.ts: the name that was meant
 *   native-file.ts   where native libraries lie
 *   options-object.ts   options of a call must be an object
 *   plain-object.ts test for a JSON object
 *   tree-nodes.ts   the size of token trees, which devices and the engine share
 *   value-text.ts   values of clients and files in messages
 *   warning.ts  warnings without a listener, to standard error
 *
 * Invariant: imports no other folder and no package.
 *
 * @module
 */
export { AssertionError, assert } from "./assert.ts";
export { type Clock, processClock, systemClock, systemTimer, type Timer } from "./clock.ts";
export { EngineError, type EngineErrorOptions, type ErrorCode, messageOf } from "./errors.ts";
export { fieldNames } from "./field-names.ts";
export { foreignWriter, type Ownership } from "./foreign-writer.ts";
export { gumbelAt, gumbelOf, tokenWords } from "./gumbel.ts";
export { IntList, intAt } from "./int-list.ts";
export {
  describeIssue,
  invalidSetting,
  issueText,
  type SettingIssue,
  type SettingProblem,
} from "./issue-text.ts";
export { LastingTrouble } from "./lasting-trouble.ts";
export {
  findNativeFile,
  type NativePlaces,
  nativePackageName,
  nativeRemedy,
} from "./native-file.ts";
export { nearestName } from "./nearest-name.ts";
export { requireOptions } from "./options-object.ts";
export { isPlainObject } from "./plain-object.ts";
export { type Counter, philox, type Seed, seedFrom, uniformAt } from "./rng.ts";
export { TokenList } from "./token-list.ts";
export { TREE_NODES_MAX } from "./tree-nodes.ts";
export { shortText, valueText } from "./value-text.ts";
export { warnOnStandardError } from "./warning.ts";
