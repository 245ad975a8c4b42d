/**
 * sampling: from logits to tokens.
 *
 * A sequence's penalties, masks and grammar become sparse edits of its row of logits;
 * the device applies them and samples. A row without edits costs nothing.
 *
 *   sampling-params.ts      parameters of a request, with defaults and ranges
 *   parsed-options.ts       options that carry their parsed parameters
 *   beam-params.ts          beam search's parameters, and those it excludes
 *   request-sampling.ts     the common part of a request's sequences
 *   sequence-sampling.ts    one sequence's history, and its edits
 *   batch-writer.ts         the host's half: sequences' state as plain data
 *   sampling-row.ts         one row of logits, and the sampling of its sequence
 *   sampling-batch.ts       this data: parameters of rows, and edits of their logits
 *   logit-edits.ts          a batch's edits in the device's layout
 *   sampler.ts              the device's half: edits, samples and reports a batch
 *   mirror.ts               the sampler's inputs on the device, written when they change
 *   top-candidates.ts       the likeliest tokens of each row, for beam search
 *   token-scorer.ts         log-probabilities of tokens, on the device
 *   logprobs.ts             log-probabilities, and those computed on the host
 *   token-history.ts        the seen tokens, and how often each was sampled
 *   token-mask.ts           sets of tokens as bits
 *   bad-word-matcher.ts     which tokens would complete a forbidden sequence
 *   thinking-budget.ts      ends a reasoning model's thinking within its budget
 *   config.ts               limits of structured output
 *   grammar/                structured output: which tokens a grammar allows next
 *     grammar-compiler.ts   from a request's structured output to matchers
 *     grammar-source.ts     a request's grammar, checked for its size
 *     grammar-trials.ts     tries grammars in separate processes
 *     grammar-process.ts    one of these processes
 *     prepared-grammar.ts   a source in a language that the library reads
 *     json-schema.ts        JSON schemas, closed and spaced
 *     structural-tag.ts     free text with constrained parts, as Lark
 *     ebnf-syntax.ts        reads EBNF
 *     ebnf-rules.ts         references of its rules, and whether they end
 *     ebnf-lark.ts          EBNF as Lark
 *     terminal-conflicts.ts parts of EBNF that the lexer may match as a whole
 *     position-automaton.ts regular expressions as automata
 *     char-set.ts           sets of characters
 *     lark-text.ts          literals of Lark
 *     grammar-cache.ts      compiled grammars for the next requests
 *     sequence-grammar.ts   how far a sequence is in its grammar, and goes ahead behind drafts
 *     grammar-matcher.ts    the matcher of one sequence
 *     grammar-library.ts    native/grammar by its C functions
 *
 * Invariant: works on token ids, never on text. Words and marks are token sequences.
 * Invariant: a sampled token is a function of logits, parameters, seed and position alone.
 *
 * @module
 */
export { BatchWriter, type BatchWriterOptions, type RowFailures } from "./batch-writer.ts";
export { sequencesOf } from "./beam-params.ts";
export { GrammarOptions } from "./config.ts";
export {
  type CompiledGrammar,
  GrammarCompiler,
  type GrammarCompilerOptions,
} from "./grammar/grammar-compiler.ts";
export { grammarProblem, type TokenBytes } from "./grammar/grammar-library.ts";
export type { GrammarMatcher } from "./grammar/grammar-matcher.ts";
export type { LogprobRequest, PositionLogprobs, TokenLogprob } from "./logprobs.ts";
export { paramsOf, parseOptions } from "./parsed-options.ts";
export { RequestSampling } from "./request-sampling.ts";
export {
  type SampledBatch,
  Sampler,
  type SamplerOptions,
  type StartedSampling,
} from "./sampler.ts";
export type { RowEdits, RowMasks, SamplingBatch } from "./sampling-batch.ts";
export {
  DRAFT_KINDS,
  DRAFT_LENGTH_MAX,
  DRAFT_WIDTH_MAX,
  type DraftKind,
  type SamplingOptions,
  SamplingParams,
  StructuredOutput,
} from "./sampling-params.ts";
export type { SamplingRow } from "./sampling-row.ts";
export { SequenceSampling, type SequenceSamplingOptions } from "./sequence-sampling.ts";
export type { ThinkingMarks } from "./thinking-budget.ts";
export { candidatesOfRow, type TokenCandidates } from "./top-candidates.ts";
