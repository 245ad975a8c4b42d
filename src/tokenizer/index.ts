/**
 * tokenizer: text to token ids and back, and conversations to text.
 *
 * Encoding is Hugging Face's JavaScript library. Decoding is a stream: whole texts are streams that
 * ended, so what a client saw piece by piece is what decoding at once gives.
 *
 *   tokenizer.ts         encode, decode, exact bytes of a token, from tokenizer.json
 *   tokenizer-files.ts   reads tokenizer.json and tokenizer_config.json
 *   vocabulary.ts        all tokens: spellings, bytes, which are special
 *   byte-alphabet.ts     how spellings stand for bytes
 *   stream-decoder.ts    incremental detokenizing of one sequence
 *   decoder-stages.ts    decoding as a chain of streaming stages
 *   decoder-config.ts    tokenizer.json's decoder as such a chain
 *   utf8-stream.ts       bytes to text, never half a character
 *   token-bound.ts       how many tokens a text has at least
 *   text-pool.ts         threads for work whose cost a client decides; pooled-thread.ts one of them
 *   text-thread.ts       the thread's side; text-work.ts its work, text-jobs.ts what crosses
 *   stop-strings.ts      finds stop strings in a stream of text; stop-pattern.ts one of them
 *   bad-words.ts         token sequences of forbidden words
 *   chat-template.ts     conversations to prompts, by the model's Jinja template
 *   call-arguments.ts    arguments of tool calls, as templates want them
 *   tool-text.ts         tools for templates that have no place for them
 *   template-cache.ts    templates that requests bring, parsed
 *   template-content.ts  does a template take content parts or strings; renames its calls
 *   bounded-range.ts     Jinja's range with a limit
 *
 * Invariant: texts of any length, and templates, are a thread's business; a thread can be stopped.
 * Invariant: text already returned by a stream never changes.
 *
 * @module
 */
export { badWordTokens } from "./bad-words.ts";
export {
  ChatTemplate,
  type ChatTemplateOptions,
  missingTemplate,
  pickTemplate,
  type RenderOptions,
} from "./chat-template.ts";
export { type StopResult, type StopStringOptions, StopStrings } from "./stop-strings.ts";
export { type DecodeOptions, StreamDecoder } from "./stream-decoder.ts";
export type { TemplateMessage } from "./template-message.ts";
export type { ChatAnswer, TemplateSource } from "./text-jobs.ts";
export { type TextLimits, TextPool, type TextPoolOptions } from "./text-pool.ts";
export { tooManyBytes } from "./text-work.ts";
export { promptTooLong } from "./token-bound.ts";
export { type EncodeOptions, type GrammarVocabulary, Tokenizer } from "./tokenizer.ts";
export type { NamedToken, NamedTokens, TokenizerFiles } from "./tokenizer-files.ts";
export type { Vocabulary, VocabularyKind } from "./vocabulary.ts";
