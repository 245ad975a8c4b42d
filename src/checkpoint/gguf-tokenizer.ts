/** Converts a GGUF's vocabulary to the tokenizer.json of Hugging Face's library. */
import type { TokenizerFiles } from "./checkpoint.ts";
import type { GgufMetadata } from "./gguf-metadata.ts";
import {
  findPreTokenization,
  type PreTokenization,
  preTokenizationNames,
} from "./gguf-pre-tokenizers.ts";
import {
  addedTokens,
  type GgufVocabulary,
  readGgufVocabulary,
  specialToken,
} from "./gguf-vocabulary.ts";
import { invalidFile } from "./invalid-file.ts";
import type { JsonObject } from "./json-text.ts";
import { sentencePieceMerges } from "./sentencepiece-merges.ts";

/** The result of the conversion: a tokenizer, or a sentence with the reason for its absence. */
export interface GgufTokenizer {
  readonly files: TokenizerFiles | null;
  readonly warning: string | null;
}

/** Builds the tokenizer. Kinds that cannot be rebuilt exactly give none, and a warning. */
export function ggufTokenizer(metadata: GgufMetadata): GgufTokenizer {
  const vocabulary = readGgufVocabulary(metadata);
  if (vocabulary === null) return without(metadata, "has no vocabulary");
  const model = metadata.findText("tokenizer.ggml.model") ?? "none";
  if (model === "llama") return made(metadata, vocabulary, sentencePiece(metadata, vocabulary));
  if (model !== "gpt2")
    return without(metadata, `has a tokenizer of the kind ${model.slice(0, 50)}`);
  const pre = metadata.findText("tokenizer.ggml.pre") ?? "gpt2";
  const cutting = findPreTokenization(pre);
  if (cutting !== null) {
    return made(metadata, vocabulary, byteLevelBpe(metadata, vocabulary, cutting));
  }
  const known = `of ${preTokenizationNames()}`;
  return without(metadata, `has tokenizer.ggml.pre = ${pre.slice(0, 50)}, which is none ${known}`);
}

function without(metadata: GgufMetadata, why: string): GgufTokenizer {
  const warning = `${metadata.path} ${why}: prompts must be token ids`;
  return { files: null, warning };
}

function made(
  metadata: GgufMetadata,
  vocabulary: GgufVocabulary,
  tokenizerJson: JsonObject,
): GgufTokenizer {
  const text = (name: string) => specialToken(metadata, vocabulary, name)?.text ?? null;
  const chatTemplate = metadata.findText("tokenizer.chat_template");
  const tokenizerConfig = {
    bos_token: text("bos"),
    eos_token: text("eos"),
    pad_token: text("padding"),
    unk_token: vocabulary.unknown,
    chat_template: chatTemplate,
  };
  return { files: { tokenizerJson, tokenizerConfig, chatTemplate }, warning: null };
}

function byteLevelBpe(
  metadata: GgufMetadata,
  vocabulary: GgufVocabulary,
  cutting: PreTokenization,
): JsonObject {
  const merges = metadata.findTexts("tokenizer.ggml.merges");
  if (merges === null) {
    const field = "tokenizer.ggml.merges";
    const must = "must be present for a BPE vocabulary";
    throw invalidFile({ path: metadata.path, field, must, actual: "missing" });
  }
  return {
    ...frame(vocabulary),
    normalizer: cutting.normalizer,
    pre_tokenizer: cutting.preTokenizer,
    post_processor: postProcessor(metadata, vocabulary, cutting.addBos),
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: bpeModel(vocabulary, {
      merges: merges.map((merge) => mergeOf(metadata, merge)),
      unk_token: null,
      ignore_merges: cutting.ignoreMerges,
    }),
  };
}

/** Two parts with a space between; in no known vocabulary does a part begin with a space. */
function mergeOf(metadata: GgufMetadata, merge: string): [left: string, right: string] {
  const space = merge.indexOf(" ", 1);
  if (space > 0) return [merge.slice(0, space), merge.slice(space + 1)];
  const field = "tokenizer.ggml.merges";
  const must = "must hold pairs with a space between";
  throw invalidFile({ path: metadata.path, field, must, actual: merge });
}

const SPACE_MARK = "▁";

function sentencePiece(metadata: GgufMetadata, vocabulary: GgufVocabulary): JsonObject {
  const { tokens, scores, unknown } = vocabulary;
  if (scores === null) {
    const field = "tokenizer.ggml.scores";
    const must = "must be present for a SentencePiece vocabulary";
    throw invalidFile({ path: metadata.path, field, must, actual: "missing" });
  }
  const prefixed = metadata.findBoolean("tokenizer.ggml.add_space_prefix") ?? true;
  const marks = { type: "Replace", pattern: { String: " " }, content: SPACE_MARK };
  const prepend = { type: "Prepend", prepend: SPACE_MARK };
  return {
    ...frame(vocabulary),
    normalizer: prefixed ? { type: "Sequence", normalizers: [prepend, marks] } : marks,
    pre_tokenizer: null,
    post_processor: postProcessor(metadata, vocabulary, true),
    decoder: sentencePieceDecoder(prefixed),
    model: bpeModel(vocabulary, {
      merges: sentencePieceMerges(tokens, scores),
      unk_token: unknown,
      fuse_unk: true,
      byte_fallback: true,
    }),
  };
}

function sentencePieceDecoder(prefixed: boolean): JsonObject {
  const spaces = { type: "Replace", pattern: { String: SPACE_MARK }, content: " " };
  const decoders: JsonObject[] = [spaces, { type: "ByteFallback" }, { type: "Fuse" }];
  if (prefixed) decoders.push({ type: "Strip", content: " ", start: 1, stop: 0 });
  return { type: "Sequence", decoders };
}

function frame(vocabulary: GgufVocabulary): JsonObject {
  const added_tokens = addedTokens(vocabulary);
  return { version: "1.0", truncation: null, padding: null, added_tokens };
}

function bpeModel(vocabulary: GgufVocabulary, own: JsonObject): JsonObject {
  return {
    type: "BPE",
    dropout: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: false,
    ...own,
    vocab: Object.fromEntries(vocabulary.tokens.map((token, id) => [token, id])),
  };
}

/** Adds BOS in front and EOS behind, as the file specifies. Null for neither. */
function postProcessor(
  metadata: GgufMetadata,
  vocabulary: GgufVocabulary,
  addBosByDefault: boolean,
): JsonObject | null {
  const wanted = (name: string, otherwise: boolean) =>
    (metadata.findBoolean(`tokenizer.ggml.add_${name}_token`) ?? otherwise)
      ? specialToken(metadata, vocabulary, name)
      : null;
  const bos = wanted("bos", addBosByDefault);
  const eos = wanted("eos", false);
  if (bos === null && eos === null) return null;
  const item = (text: string, type: number) => ({ SpecialToken: { id: text, type_id: type } });
  const around = (id: string, type: number) => [
    ...(bos === null ? [] : [item(bos.text, type)]),
    { Sequence: { id, type_id: type } },
    ...(eos === null ? [] : [item(eos.text, type)]),
  ];
  const special = [bos, eos].filter((token) => token !== null);
  return {
    type: "TemplateProcessing",
    single: around("A", 0),
    pair: [...around("A", 0), ...around("B", 1)],
    special_tokens: Object.fromEntries(
      special.map(({ id, text }) => [text, { id: text, ids: [id], tokens: [text] }]),
    ),
  };
}
