/**
 * base: what everything else stands on, and what imports nothing.
 *
 *   assert.ts   stops at our own bugs
 *   errors.ts   failures of callers and of the world, one catalogue of codes
 *   issue-text.ts   what is wrong with a setting, in words
 *   clock.ts    time as an argument, and ends of waits
 *   foreign-writer.ts   who else can change a file
 *   int-list.ts a growing list of 32-bit integers
 *   token-list.ts   the same behind an array that lists share
 *   rng.ts      counter-based randomness, keyed by seed and position
 *   plain-object.ts what JSON calls an object
 *   value-text.ts   what others wrote, as messages show it
 *   warning.ts  where warnings go that nobody listens for
 *
 * Invariant: imports no other folder and no package.
 *
 * @module
 */
export { AssertionError, assert } from "./assert.ts";
export { type Clock, processClock, systemClock, systemTimer, type Timer } from "./clock.ts";
export { EngineError, type EngineErrorOptions, type ErrorCode, messageOf } from "./errors.ts";
export { foreignWriter, type Ownership } from "./foreign-writer.ts";
export { IntList, intAt } from "./int-list.ts";
export {
  describeIssue,
  invalidSetting,
  issueText,
  type SettingIssue,
  type SettingProblem,
} from "./issue-text.ts";
export { isPlainObject } from "./plain-object.ts";
export { type Counter, philox, type Seed, seedFrom, uniformAt } from "./rng.ts";
export { TokenList } from "./token-list.ts";
export { shortText, valueText } from "./value-text.ts";
export { warnOnStandardError } from "./warning.ts";
