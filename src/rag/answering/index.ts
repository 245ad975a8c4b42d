/**
 * rag/answering: answers from passages, with prompts that the cache serves.
 *
 *   answerer.ts       one question: prompt, stream, checked citations; answer.ts: what it yields
 *   config.ts         how questions are answered
 *   answer-prompt.ts  which passages, in which order, and how long they are kept
 *   prompt-text.ts    the words of a prompt
 *   passages.ts       found chunks as passages; quoting.ts: what they say stays a quotation
 *   prefix-book.ts    orders of passages in recent prompts
 *   cache-watch.ts    which blocks the model's cache holds
 *   prompt-blocks.ts  parts of a prompt as tokens and blocks; retention-plan.ts: their priorities
 *   citation-filter.ts   citations in a stream; cited-text.ts: an answer as it grows
 *   support.ts        whether a source says what is cited from it
 *   rewriter.ts       questions of a conversation made to stand alone; follow-up.ts: by rules
 *   quoted-answer.ts  answers of small models; extract.ts: sentences that answer a question
 *   words.ts          words of English text
 *
 * Invariant: nothing that a source says leaves its passage (RG80).
 *
 * @module
 */
export type { Answer, AskEvent, AskUsage, Citation, Refusal, Source } from "./answer.ts";
export { Answerer, type AnswerRequest } from "./answerer.ts";
export { type AskFields, AskSettings, parseAskSettings } from "./config.ts";
export { byBestQuote } from "./extract.ts";
export type { Turn } from "./follow-up.ts";
export { preambleWith } from "./prompt-text.ts";
export { type RewriteOptions, standaloneQuestion } from "./rewriter.ts";
export type { Support } from "./support.ts";
export { isContent, stemOf, wordsOf } from "./words.ts";
