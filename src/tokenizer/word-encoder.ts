/**
 * Encoding by words, for byte-level BPE that splits texts by one known pattern: most words have
 * been seen before, and cost a look-up; beginnings of long texts, too. Ids equal those of Hugging
 * Face's library; tokenizers of other kinds, and texts in which something is unusual, are left to
 * it.
 */
import type { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { IntList } from "#base";
import { byteLevelCharacter } from "./byte-alphabet.ts";
import { BytePairs, WORD_BYTES_MAX } from "./byte-pairs.ts";
import { EncodedTexts } from "./encoded-texts.ts";
import { isQuickSplitter } from "./quick-texts.ts";
import { forLibrary, isObject, type Json } from "./tokenizer-files.ts";
import { WordCache } from "./word-cache.ts";

/** A pattern of more alternatives would be slow. */
const ADDED_TOKENS_MAX = 4_096;

interface WordEncoderParts {
  readonly pairs: BytePairs;
  /** Of words; all of them together are the text. */
  readonly words: RegExp;
  /** Added tokens, the longest first; null: there are none. */
  readonly added: RegExp | null;
  readonly addedIds: ReadonlyMap<string, number>;
  readonly normalizes: boolean;
  /** Words that are tokens are taken whole. */
  readonly wholeWords: boolean;
  /** A vocabulary's id of a token. */
  readonly idOf: (token: string) => number | undefined;
  /** Tokens of a long word, by the library. */
  readonly longWord: (spelling: string) => readonly number[];
}

/** Encodes texts without what the post-processor puts around them. */
export class WordEncoder {
  readonly #parts: WordEncoderParts;
  readonly #cache = new WordCache();
  readonly #texts: EncodedTexts;
  readonly #utf8 = new TextEncoder();

  private constructor(parts: WordEncoderParts) {
    this.#parts = parts;
    const lengths = Array.from(parts.addedIds.keys(), ({ length }) => length);
    this.#texts = new EncodedTexts(Math.max(0, ...lengths));
  }

  /** For a tokenizer.json; null where the library has to encode. */
  static of(json: Json, config: Json, library: HuggingFaceTokenizer): WordEncoder | null {
    const { model } = library;
    const words = wordPattern(json, library);
    const added = addedTokens(json);
    const isLegacy = config.remove_space === true || config.do_lowercase_and_remove_accent === true;
    if (model === null || words === null || added === null || isLegacy) return null;
    if (!isNormalizer(json.normalizer) || !keepsTokens(json.post_processor)) return null;
    if (!isObject(json.model) || json.model.type !== "BPE" || json.model.fuse_unk === true) {
      return null;
    }
    const idOf = (token: string) => added.get(token) ?? model.tokens_to_ids.get(token);
    const pairs = BytePairs.of(json.model, (token) => model.tokens_to_ids.get(token));
    if (pairs === null) return null;
    return new WordEncoder({
      ...{ pairs, words, idOf, addedIds: added, added: patternOf([...added.keys()]) },
      normalizes: json.normalizer !== null && json.normalizer !== undefined,
      wholeWords: json.model.ignore_merges === true,
      longWord: (spelling) => model.encode([spelling]).map((token: string) => idOf(token) ?? -1),
    });
  }

  /** The ids; null: the library has to encode this text. Texts of other salts are no help. */
  encode(text: string, salt: string | null = null): Int32Array<ArrayBuffer> | null {
    const { added, addedIds } = this.#parts;
    const { ids: known, ends, counts } = this.#texts.find(text, salt);
    const ids = new IntList(known);
    let start = ends.at(-1) ?? 0;
    if (added !== null) {
      added.lastIndex = start;
      for (let found = added.exec(text); found !== null; found = added.exec(text)) {
        if (!this.#encodeSection(text.slice(start, found.index), ids)) return null;
        ids.push(addedIds.get(found[0]) ?? -1);
        start = found.index + found[0].length;
        ends.push(start);
        counts.push(ids.length);
      }
    }
    if (!this.#encodeSection(text.slice(start), ids)) return null;
    this.#texts.add(text, ids.view(), { ends, counts }, salt);
    return new Int32Array(ids.view());
  }

  /** Appends the ids of text between added tokens. False: the library has to encode it. */
  #encodeSection(given: string, ids: IntList): boolean {
    if (given === "") return true;
    const { words: pattern, normalizes, addedIds } = this.#parts;
    const section = normalizes ? given.normalize("NFC") : given;
    // Only a composed text can become an added token.
    if (normalizes && addedIds.has(section)) return false;
    const words = section.match(pattern) ?? [];
    let length = 0;
    for (const word of words) {
      length += word.length;
      const known = this.#cache.get(word) ?? this.#encodeWord(word);
      for (let place = 0; place < known.length; place++) ids.push(known[place] ?? 0);
    }
    return length === section.length;
  }

  #encodeWord(word: string): Int32Array {
    const ids = this.#idsOf(word);
    this.#cache.set(word, ids);
    return ids;
  }

  #idsOf(word: string): Int32Array {
    const { pairs, wholeWords, idOf, longWord } = this.#parts;
    const bytes = this.#utf8.encode(word);
    const isShort = bytes.length <= WORD_BYTES_MAX;
    if (isShort && !wholeWords) return pairs.encode(bytes);
    const spelling = Array.from(bytes, byteLevelCharacter).join("");
    if (!isShort) return Int32Array.from(longWord(spelling));
    const whole = idOf(spelling);
    return whole === undefined ? pairs.encode(bytes) : Int32Array.of(whole);
  }
}

/** The library's own pattern of words, where nothing else splits them; null: something does. */
function wordPattern(json: Json, { pre_tokenizer: made }: HuggingFaceTokenizer): RegExp | null {
  const { pre_tokenizer: splitter } = forLibrary(json);
  const parts: unknown = isObject(splitter) ? splitter.pretokenizers : null;
  if (!Array.isArray(parts) || parts.length !== 2 || !parts.every(isObject)) return null;
  const [split, bytes] = parts;
  if (split?.type !== "Split" || split.behavior !== "Isolated" || split.invert === true)
    return null;
  if (!isQuickSplitter(split) || bytes?.type !== "ByteLevel") return null;
  if (bytes.use_regex !== false || bytes.add_prefix_space !== false) return null;
  // The library's parts are functions with fields; its types do not tell of these.
  const { tokenizers: own } = (made ?? {}) as { readonly tokenizers?: unknown };
  const [first] = Array.isArray(own) ? own : [];
  const pattern: unknown = first?.pattern;
  return pattern instanceof RegExp ? pattern : null;
}

/** Ids by spelling; null where one takes spaces along, or is found in normalized text. */
function addedTokens(json: Json): ReadonlyMap<string, number> | null {
  const { added_tokens: list = [] } = json;
  if (!Array.isArray(list) || list.length > ADDED_TOKENS_MAX) return null;
  const ids = new Map<string, number>();
  const hasNormalizer = json.normalizer !== null && json.normalizer !== undefined;
  for (const token of list) {
    const { content, id, lstrip, rstrip, normalized } = token;
    if (lstrip === true || rstrip === true || (normalized !== false && hasNormalizer)) return null;
    if (content === "") return null;
    ids.set(content, id);
  }
  return ids;
}

function patternOf(texts: readonly string[]): RegExp | null {
  if (texts.length === 0) return null;
  const longestFirst = texts.toSorted((a, b) => b.length - a.length);
  const escaped = longestFirst.map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"));
  return new RegExp(escaped.join("|"), "g");
}

function isNormalizer(normalizer: unknown): boolean {
  if (normalizer === null || normalizer === undefined) return true;
  return isObject(normalizer) && normalizer.type === "NFC";
}

/** Whether the post-processor leaves the text's own tokens as they are, between others or not. */
function keepsTokens(processor: unknown): boolean {
  if (processor === null || processor === undefined) return true;
  if (!isObject(processor)) return false;
  if (processor.type === "ByteLevel") return true;
  if (processor.type === "Sequence") {
    return Array.isArray(processor.processors) && processor.processors.every(keepsTokens);
  }
  if (processor.type !== "TemplateProcessing" || !Array.isArray(processor.single)) return false;
  const texts = processor.single.filter((item) => isObject(item) && isObject(item.Sequence));
  return texts.length === 1 && texts[0].Sequence.id === "A";
}
