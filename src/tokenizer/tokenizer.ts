import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { createStages } from "./decoder-config.ts";
import type { Stage } from "./decoder-stages.ts";
import { EncodeWorker } from "./encode-worker.ts";
import { type DecodeOptions, StreamDecoder } from "./stream-decoder.ts";
import {
  forLibrary,
  invalid,
  type Json,
  type NamedToken,
  type NamedTokens,
  namedTokensOf,
  parsedFile,
  type TokenizerFiles,
  vocabularyOf,
} from "./tokenizer-files.ts";
import type { Vocabulary, VocabularyKind } from "./vocabulary.ts";

export interface EncodeOptions {
  /** Add what the model wants around a text (`<s>`, `[CLS]`); true by default. */
  readonly addSpecialTokens?: boolean;
}

/** Texts at least this long (UTF-16 units) go to a worker: some 2,000 tokens, 5 to 40 ms. */
const longText = 8_192;

/** What a grammar compiler needs of a vocabulary; plain data. */
export interface GrammarVocabulary {
  /** Token spellings by id, "" for special tokens and for ids without a token. */
  readonly tokens: readonly string[];
  readonly type: VocabularyKind;
}

/**
 * Text to token ids and back, exactly as Hugging Face's `tokenizers` does, from tokenizer.json.
 *
 * Encoding is Hugging Face's JavaScript library. Decoding is our own (`decoder-stages.ts`), because
 * a server decodes token by token. Spaces are never "cleaned up" beyond what the decoder in
 * tokenizer.json asks for: transformers 5 and vLLM do not either, and it would eat spaces of code.
 */
export class Tokenizer {
  readonly vocabulary: Vocabulary;
  /** Spellings of the special tokens that tokenizer_config.json names. */
  readonly namedTokens: NamedTokens;
  readonly #encoder: HuggingFaceTokenizer;
  /** Never pushed to: each stream forks them. */
  readonly #stages: readonly Stage[];
  readonly #worker: EncodeWorker;

  /** Throws TOKENIZER_INVALID. */
  constructor(files: TokenizerFiles) {
    const json = parsedFile(files.tokenizerJson, "tokenizer.json");
    const config = parsedFile(files.tokenizerConfig ?? {}, "tokenizer_config.json");
    this.vocabulary = vocabularyOf(json, config);
    this.namedTokens = namedTokensOf(config);
    this.#stages = createStages(json.decoder);
    this.#encoder = createEncoder(json, config);
    this.#worker = new EncodeWorker(files);
  }

  /** One more than the largest token id; a model's logits may have more columns. */
  get vocabularySize(): number {
    return this.vocabulary.size;
  }

  /** Ids that are left out of text. */
  get specialIds(): readonly number[] {
    return this.vocabulary.specialIds;
  }

  /** The id of a token by its role in tokenizer_config.json, or null. */
  namedId(name: NamedToken): number | null {
    const token = this.namedTokens[name];
    return token === undefined ? null : this.tokenId(token);
  }

  /** The id of a token by its exact spelling, or null. */
  tokenId(token: string): number | null {
    return this.#encoder.token_to_id(token) ?? null;
  }

  /** Encodes without blocking: long texts go to a worker thread (in a built package). */
  async encode(text: string, options: EncodeOptions = {}): Promise<number[]> {
    if (text.length < longText || !EncodeWorker.available) return this.encodeNow(text, options);
    return await this.#worker.encode(text, options.addSpecialTokens ?? true);
  }

  /** Encodes on this thread: about 1.5 MB of text per second. */
  encodeNow(text: string, options: EncodeOptions = {}): number[] {
    return this.#encoder.encode(text, { add_special_tokens: options.addSpecialTokens ?? true }).ids;
  }

  /** Text of the ids. Unknown ids have none. */
  decode(ids: readonly number[], options: DecodeOptions = {}): string {
    const decoder = this.stream(options);
    return decoder.push(ids) + decoder.flush();
  }

  /** An incremental decoder, of which `decode` is the whole at once. */
  stream(options: DecodeOptions = {}): StreamDecoder {
    const stages = this.#stages.map((stage) => stage.fork());
    return new StreamDecoder(this.vocabulary, stages, options);
  }

  /** Exactly the bytes that an id stands for (a token may be half a character). */
  tokenBytes(id: number): Uint8Array {
    return this.vocabulary.bytes(id);
  }

  grammarVocabulary(): GrammarVocabulary {
    return { tokens: this.vocabulary.spellings(), type: this.vocabulary.kind };
  }

  /** Stops the worker, if one was started. The tokenizer can still be used. */
  async dispose(): Promise<void> {
    await this.#worker.stop();
  }
}

/** The library's tokenizer. Throws TOKENIZER_INVALID. */
function createEncoder(json: Json, config: Json): HuggingFaceTokenizer {
  try {
    return new HuggingFaceTokenizer(forLibrary(json), config);
  } catch (error) {
    throw invalid("tokenizer.json must be one that Hugging Face's library reads", error);
  }
}
