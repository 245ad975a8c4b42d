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
 *   encode-worker.ts     long texts are encoded on a thread; tokenizer-worker.ts is that thread
 *   stop-strings.ts      finds stop strings in a stream of text; stop-pattern.ts one of them
 *   bad-words.ts         token sequences of forbidden words
 *   chat-template.ts     conversations to prompts, by the model's Jinja template
 *   template-content.ts  does a template take content parts or strings
 *
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
  type TemplateMessage,
} from "./chat-template.ts";
export { type StopResult, type StopStringOptions, StopStrings } from "./stop-strings.ts";
export { type DecodeOptions, StreamDecoder } from "./stream-decoder.ts";
export { type EncodeOptions, type GrammarVocabulary, Tokenizer } from "./tokenizer.ts";
export type { NamedToken, NamedTokens, TokenizerFiles } from "./tokenizer-files.ts";
export type { Vocabulary, VocabularyKind } from "./vocabulary.ts";
