/**
 * tokenizer: text to token ids and back, and conversations to text.
 *
 * Byte-level BPE is encoded by words, all else by Hugging Face's JavaScript library. Decoding is
 * always incremental: a whole text is decoded as a stream that ended, so streamed pieces add up to
 * the text decoded at once.
 *
 *   tokenizer.ts         encode, decode, exact bytes of a token, from tokenizer.json
 *   tokenizer-files.ts   reads tokenizer.json and tokenizer_config.json
 *   word-encoder.ts      encodes byte-level BPE by words: word-cache.ts keeps tokens of words,
 *                        byte-pairs.ts makes them, encoded-texts.ts keeps those of long texts
 *   pair-frame.ts        what stands around and between two texts
 *   vocabulary.ts        all tokens: spellings, bytes, special flags
 *   byte-alphabet.ts     the mapping from spellings to bytes
 *   stream-decoder.ts    incremental detokenizing of one sequence
 *   decoder-stages.ts    decoding as a chain of streaming stages
 *   decoder-config.ts    builds that chain from tokenizer.json's decoder
 *   utf8-stream.ts       bytes to text, never half a character
 *   token-bound.ts       a lower bound for the number of tokens of a text
 *   text-pool.ts         threads for work whose cost the client decides; pooled-thread.ts: one
 *   text-thread.ts       the thread's entry point; text-work.ts its work, text-jobs.ts its messages
 *   stop-strings.ts      finds stop strings in a stream of text; stop-pattern.ts: one string
 *   bad-words.ts         token sequences of forbidden words
 *   chat-template.ts     conversations to prompts, by the model's Jinja template
 *   call-arguments.ts    arguments of tool calls, in the form that templates expect
 *   tool-text.ts         tools as text, for templates without tool support
 *   template-cache.ts    parsed templates of requests
 *   template-message.ts  one turn of a conversation
 *   template-content.ts  detects whether a template takes content parts; renames its calls
 *   bounded-range.ts     Jinja's range with a limit
 *
 * Invariant: texts of unbounded length, and templates, are processed on a text thread, which can be
 * stopped.
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
export type { PairFrame } from "./pair-frame.ts";
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
