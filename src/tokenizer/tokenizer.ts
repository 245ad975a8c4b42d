import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { createStages } from "./decoder-config.ts";
import type { Stage } from "./decoder-stages.ts";
import { type PairFrame, pairFrameOf } from "./pair-frame.ts";
import { encodesQuickly } from "./quick-texts.ts";
import { type DecodeOptions, StreamDecoder } from "./stream-decoder.ts";
import { bytesPerToken } from "./token-bound.ts";
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
import type { Vocabulary } from "./vocabulary.ts";
import { WordEncoder } from "./word-encoder.ts";

export interface EncodeOptions {
  /** Add the model's special tokens around a text (`<s>`, `[CLS]`); true by default. */
  readonly addSpecialTokens?: boolean;
  /** Of the request: what is kept of its text speeds up no text of another. Default: none. */
  readonly cacheSalt?: string | null;
}

/** Ids around a text. */
interface TokenFrame {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/** The vocabulary data for a grammar compiler; plain data. */
export interface GrammarVocabulary {
  /** Bytes of all tokens, concatenated by id; special tokens and unused ids have none. */
  readonly bytes: Uint8Array;
  /** The end offset of each token's bytes. */
  readonly ends: Uint32Array;
}

/**
 * Text to token ids and back, exactly as Hugging Face's `tokenizers` does, from tokenizer.json.
 *
 * Byte-level BPE is encoded by words (`word-encoder.ts`), all else by Hugging Face's JavaScript
 * library. Decoding is our own (`decoder-stages.ts`), because a server decodes token by token.
 * Spaces are never "cleaned up" beyond what the decoder in tokenizer.json specifies: neither do
 * transformers 5 and vLLM, and it would remove spaces in code.
 */
export class Tokenizer {
  readonly vocabulary: Vocabulary;
  /** Spellings of the special tokens that tokenizer_config.json names. */
  readonly namedTokens: NamedTokens;
  /** Whether `encodeNow` takes a short time for any short text. */
  readonly encodesQuickly: boolean;
  readonly #encoder: HuggingFaceTokenizer;
  /** Encodes the usual kind of tokenizer; null: the library does it all. */
  readonly #words: WordEncoder | null;
  /** Makes an encoder without the parts that may take long; null: the ordinary one is quick. */
  readonly #createFramer: (() => HuggingFaceTokenizer) | null;
  #frame: TokenFrame | null = null;
  #pairFrame: PairFrame | null = null;
  /** Initial stages; each stream forks them, none is pushed to. */
  readonly #stages: readonly Stage[];
  /** Maximum number of text bytes that one token stands for; null: unknown. */
  readonly #bytesPerToken: number | null;

  /** Throws TOKENIZER_INVALID. */
  constructor(files: TokenizerFiles) {
    const json = parsedFile(files.tokenizerJson, "tokenizer.json");
    const config = parsedFile(files.tokenizerConfig ?? {}, "tokenizer_config.json");
    this.vocabulary = vocabularyOf(json, config);
    this.namedTokens = namedTokensOf(config);
    this.#stages = createStages(json.decoder);
    this.encodesQuickly = encodesQuickly(json);
    this.#encoder = createEncoder(json, config);
    this.#words = WordEncoder.of(json, config, this.#encoder);
    this.#createFramer = this.encodesQuickly ? null : framerOf(json, config);
    this.#bytesPerToken = bytesPerToken(json, this.vocabulary);
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

  /**
   * Encodes on this thread: some 6 MB of ordinary text per second with byte-level BPE, 1 MB with
   * others. An adversarial text can cost a hundred times that, or the square of its length: encode
   * long texts on a `TextPool`, and all texts where `encodesQuickly` is false.
   * Throws TOKENIZER_INVALID.
   */
  encodeNow(text: string, options: EncodeOptions = {}): number[] {
    return Array.from(this.encodeIds(text, options));
  }

  /** The same, for long texts, in an array of their own. */
  encodeIds(text: string, options: EncodeOptions = {}): Int32Array<ArrayBuffer> {
    const { addSpecialTokens = true, cacheSalt = null } = options;
    const ids = this.#words?.encode(text, cacheSalt) ?? null;
    // Not `from`, which goes by iteration: ten times the time.
    if (ids === null) return new Int32Array(idsOf(this.#encoder, text, addSpecialTokens));
    if (!addSpecialTokens) return ids;
    const { before, after } = this.frame;
    if (before.length + after.length === 0) return ids;
    const framed = new Int32Array(before.length + ids.length + after.length);
    framed.set(before);
    framed.set(ids, before.length);
    framed.set(after, before.length + ids.length);
    return framed;
  }

  /** The ids that `addSpecialTokens` puts around a text. */
  get frame(): TokenFrame {
    this.#frame ??= frameOf(this.#createFramer?.() ?? this.#encoder);
    return this.#frame;
  }

  /** What the tokenizer puts around and between two texts. Throws TOKENIZER_INVALID for none. */
  get pairFrame(): PairFrame {
    this.#pairFrame ??= pairOf(this.#createFramer?.() ?? this.#encoder);
    return this.#pairFrame;
  }

  /** Text of the ids. Unknown ids have none. */
  decode(ids: readonly number[], options: DecodeOptions = {}): string {
    const decoder = this.stream(options);
    return decoder.push(ids) + decoder.flush();
  }

  /** An incremental decoder; `decode` is its result for all ids at once. */
  stream(options: DecodeOptions = {}): StreamDecoder {
    const stages = this.#stages.map((stage) => stage.fork());
    return new StreamDecoder(this.vocabulary, stages, options);
  }

  /** The exact bytes of a token (a token may be half a character). */
  tokenBytes(id: number): Uint8Array {
    return this.vocabulary.bytes(id);
  }

  grammarVocabulary(): GrammarVocabulary {
    return this.vocabulary.textBytes();
  }

  /** A lower bound for the number of tokens of `text`, without encoding it; 0 if unknown. */
  tokensAtLeast(text: string): number {
    if (this.#bytesPerToken === null) return 0;
    return Math.ceil(Buffer.byteLength(text) / this.#bytesPerToken);
  }
}

/**
 * Only the post-processor puts ids around a text. Keeps the files, which have millions of objects:
 * a function of its own, so that quick tokenizers do not.
 */
function framerOf(json: Json, config: Json): () => HuggingFaceTokenizer {
  const framing = { ...json, normalizer: null, pre_tokenizer: null };
  return () => createEncoder(framing, config);
}

/** What the encoder puts around a text. */
function frameOf(encoder: HuggingFaceTokenizer): TokenFrame {
  const framed = idsOf(encoder, "a", true);
  const bare = idsOf(encoder, "a", false);
  const more = framed.length - bare.length;
  for (let start = 0; start <= more; start++) {
    if (!bare.every((id, i) => framed[start + i] === id)) continue;
    return { before: framed.slice(0, start), after: framed.slice(start + bare.length) };
  }
  return { before: [], after: [] };
}

/** What the encoder puts around and between two texts. Throws TOKENIZER_INVALID. */
function pairOf(encoder: HuggingFaceTokenizer): PairFrame {
  const pair = encoder.encode("a", { text_pair: "b", return_token_type_ids: true });
  const frame = pairFrameOf({
    framed: pair.ids,
    types: pair.token_type_ids ?? null,
    first: idsOf(encoder, "a", false),
    second: idsOf(encoder, "b", false),
  });
  if (frame !== null) return frame;
  throw invalid("its post-processor must put tokens around two texts that keeps them whole");
}

/** Encodes with the library. Throws TOKENIZER_INVALID. */
function idsOf(encoder: HuggingFaceTokenizer, text: string, add_special_tokens: boolean): number[] {
  const wanted = "tokenizer.json must be one that texts can be encoded with";
  let ids: number[];
  try {
    ids = encoder.encode(text, { add_special_tokens }).ids;
  } catch (error) {
    // The library detects some faults of a file only here, and by accident.
    throw invalid(wanted, error);
  }
  // Ids that the file's post-processor puts around a text may be anything.
  if (ids.every(Number.isSafeInteger)) return ids;
  throw invalid(`${wanted}, an id is no integer`);
}

/** The library's tokenizer. Throws TOKENIZER_INVALID. */
function createEncoder(json: Json, config: Json): HuggingFaceTokenizer {
  try {
    const encoder = new HuggingFaceTokenizer(forLibrary(json), config);
    boundCache(encoder);
    return encoder;
  } catch (error) {
    throw invalid("tokenizer.json must be one that Hugging Face's library reads", error);
  }
}

/** Longest word, in characters, whose tokens the library caches; it caches 10,000 words. */
const CACHED_WORD_MAX = 32;

/** The library's limit of 256 characters lets a client fill 100 MB with words that never recur. */
function boundCache({ model }: HuggingFaceTokenizer): void {
  if (model !== null && "max_length_to_cache" in model) model.max_length_to_cache = CACHED_WORD_MAX;
}
