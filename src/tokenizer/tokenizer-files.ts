/** Reads the data of a tokenizer from tokenizer.json and tokenizer_config.json. */
import { EngineError, messageOf } from "#base";
import { Vocabulary, type VocabularyKind } from "./vocabulary.ts";

/** A parsed JSON object. */
export type Json = Readonly<Record<string, unknown>>;

/** A model's tokenizer files: parsed, or as text (cheaper to send to a worker). */
export interface TokenizerFiles {
  readonly tokenizerJson: string | Json;
  readonly tokenizerConfig?: string | Json | null;
}

/** Names under which tokenizer_config.json declares special tokens. */
const namedTokens = ["bos", "eos", "unk", "pad", "sep", "cls", "mask"] as const;
export type NamedToken = (typeof namedTokens)[number];

/** Spellings of the special tokens that have a role. */
export type NamedTokens = Readonly<Partial<Record<NamedToken, string>>>;

export function invalid(wanted: string, cause?: unknown): EngineError {
  const reason = cause === undefined ? "" : `, ${messageOf(cause)}`;
  return new EngineError("TOKENIZER_INVALID", `Cannot use the tokenizer: ${wanted}${reason}`, {
    cause,
  });
}

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses a file unless it is parsed already. Throws TOKENIZER_INVALID. */
export function parsedFile(file: string | Json, name: string): Json {
  let value: unknown = file;
  if (typeof file === "string") {
    try {
      value = JSON.parse(file);
    } catch (error) {
      throw invalid(`${name} must be JSON`, error);
    }
  }
  if (!isObject(value)) throw invalid(`${name} must be a JSON object`);
  return value;
}

/** A token as configs write it: text, or an object with `content`. */
function tokenText(value: unknown): string | null {
  if (typeof value === "string") return value;
  return isObject(value) && typeof value.content === "string" ? value.content : null;
}

/** Special tokens with a role, from tokenizer_config.json. */
export function namedTokensOf(config: Json): NamedTokens {
  const named: Partial<Record<NamedToken, string>> = {};
  for (const name of namedTokens) {
    const text = tokenText(config[`${name}_token`]);
    if (text !== null) named[name] = text;
  }
  return named;
}

/** All spellings that tokenizer_config.json marks as special. */
function configSpecials(config: Json): string[] {
  const more = config.additional_special_tokens ?? config.extra_special_tokens;
  const values = Array.isArray(more) ? more : isObject(more) ? Object.values(more) : [];
  const texts = values.map(tokenText).filter((text) => text !== null);
  return [...Object.values(namedTokensOf(config)), ...texts];
}

/** Types of a decoder or pre-tokenizer and of all its nested parts. */
function partTypes(part: unknown): string[] {
  if (!isObject(part)) return [];
  const children = [part.decoders, part.pretokenizers].flatMap((list) =>
    Array.isArray(list) ? list : [],
  );
  return [String(part.type), ...children.flatMap(partTypes)];
}

function kindOf(tokenizer: Json, model: Json): VocabularyKind {
  const types = [...partTypes(tokenizer.decoder), ...partTypes(tokenizer.pre_tokenizer)];
  if (types.includes("ByteLevel")) return "byte_level";
  const sentencePiece = types.includes("ByteFallback") || types.includes("Metaspace");
  return sentencePiece || model.byte_fallback === true ? "byte_fallback" : "raw";
}

interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
}

function addedTokensOf(tokenizer: Json): AddedToken[] {
  const list = tokenizer.added_tokens ?? [];
  if (!Array.isArray(list)) throw invalid("added_tokens must be a list");
  return list.map((entry: unknown) => {
    const { id, content, special } = isObject(entry) ? entry : {};
    if (!Number.isSafeInteger(id) || Number(id) < 0 || typeof content !== "string") {
      throw invalid("every entry of added_tokens must have an id and a content");
    }
    return { id: Number(id), content, special: special === true };
  });
}

/** The model types that the library supports. */
const modelTypes = ["BPE", "Unigram", "WordLevel", "WordPiece"];

/**
 * Upper bound for ids, a few times the largest real vocabulary: one token of a small file must not
 * create huge tables for all ids below its own.
 */
const idLimit = 1 << 21;

/** Token strings by id: the model's vocabulary and added tokens. */
function tokensOf(model: Json, added: readonly AddedToken[]): (string | undefined)[] {
  const tokens: (string | undefined)[] = [];
  const put = (token: string, id: unknown): void => {
    if (!Number.isSafeInteger(id) || Number(id) < 0 || Number(id) >= idLimit) {
      throw invalid(`token ids must be integers from 0 up to ${idLimit}, ${String(id)}`);
    }
    tokens[Number(id)] = token;
  };
  const { vocab } = model;
  if (Array.isArray(vocab)) {
    vocab.forEach((entry: unknown, id) => {
      if (!Array.isArray(entry)) throw invalid("model.vocab must hold pairs");
      put(String(entry[0]), id);
    });
  } else if (isObject(vocab)) {
    for (const token in vocab) put(token, vocab[token]);
  } else {
    throw invalid("model.vocab must be an object or a list");
  }
  for (const token of added) put(token.content, token.id);
  return tokens;
}

/** GPT-2's pattern that splits text into words; `ByteLevel` with `use_regex` uses it. */
export const byteLevelWords =
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/**
 * tokenizer.json for the JavaScript library, with `ByteLevel` rewritten as a `Split`: the library's
 * `ByteLevel` uses JavaScript's white space instead of Unicode's (they differ in U+FEFF and
 * U+0085), while its `Split` is correct. With a prefix space the two are not equivalent, so
 * `ByteLevel` stays.
 */
export function forLibrary(tokenizer: Json): Json {
  return { ...tokenizer, pre_tokenizer: withSplit(tokenizer.pre_tokenizer) };
}

function withSplit(part: unknown): unknown {
  if (!isObject(part)) return part;
  if (Array.isArray(part.pretokenizers)) {
    return { ...part, pretokenizers: part.pretokenizers.map(withSplit) };
  }
  const splits = part.type === "ByteLevel" && part.use_regex !== false;
  if (!splits || part.add_prefix_space !== false) return part;
  const pattern = { Regex: byteLevelWords };
  const split = { type: "Split", pattern, behavior: "Isolated", invert: false };
  return { type: "Sequence", pretokenizers: [split, { ...part, use_regex: false }] };
}

/** The vocabulary that tokenizer.json describes. Throws TOKENIZER_INVALID. */
export function vocabularyOf(tokenizer: Json, config: Json): Vocabulary {
  const { model } = tokenizer;
  if (!isObject(model)) throw invalid("tokenizer.json must have a model");
  const type = String(model.type ?? "BPE"); // older files have no type and are BPE
  if (!modelTypes.includes(type)) {
    throw invalid(`its model must be one of ${modelTypes.join(", ")}, it is ${type}`);
  }
  const added = addedTokensOf(tokenizer);
  const tokens = tokensOf(model, added);
  const idByToken = new Map<string, number>();
  // Ids may have gaps, which forEach skips.
  tokens.forEach((token, id) => {
    if (token !== undefined) idByToken.set(token, id);
  });
  const fromConfig = configSpecials(config)
    .map((text) => idByToken.get(text))
    .filter((id) => id !== undefined);
  const special = added.filter((token) => token.special).map((token) => token.id);
  const prefix = model.continuing_subword_prefix;
  return new Vocabulary({
    kind: kindOf(tokenizer, model),
    tokens,
    addedIds: added.map((token) => token.id),
    specialIds: new Set([...special, ...fromConfig]),
    continuationPrefix: typeof prefix === "string" && prefix !== "" ? prefix : null,
  });
}
