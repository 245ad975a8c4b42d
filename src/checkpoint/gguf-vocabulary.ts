/** The `tokenizer.ggml.*` part of a GGUF, checked: tokens with their kinds and scores. */
import type { GgufMetadata } from "./gguf-metadata.ts";
import { invalidFile } from "./invalid-file.ts";
import type { JsonObject } from "./json-text.ts";

/** GGUF's numbers for kinds of tokens. */
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;

export interface GgufVocabulary {
  /** By id. */
  readonly tokens: readonly string[];
  /** Ids of control tokens, which text never encodes to. */
  readonly control: ReadonlySet<number>;
  /** Ids of tokens that are cut out of the text as a whole before any other step. */
  readonly userDefined: ReadonlySet<number>;
  /** The token for text that no other token covers. Null if there is none. */
  readonly unknown: string | null;
  /** SentencePiece's scores, higher merges first. Null if the file has none. */
  readonly scores: readonly number[] | null;
}

/** Null if the file has no vocabulary. */
export function readGgufVocabulary(metadata: GgufMetadata): GgufVocabulary | null {
  const tokens = metadata.findTexts("tokenizer.ggml.tokens");
  if (tokens === null) return null;
  const types = perToken(metadata, "tokenizer.ggml.token_type", tokens.length) ?? [];
  const idsOf = (kind: number) => {
    const ids = new Set<number>();
    for (const [id, type] of types.entries()) if (type === kind) ids.add(id);
    return ids;
  };
  const [unknownId] = idsOf(UNKNOWN);
  const stated = metadata.findCount("tokenizer.ggml.unknown_token_id") ?? unknownId;
  return {
    tokens,
    control: idsOf(CONTROL),
    userDefined: idsOf(USER_DEFINED),
    unknown: stated === undefined ? null : (tokens[stated] ?? null),
    scores: perToken(metadata, "tokenizer.ggml.scores", tokens.length),
  };
}

function perToken(metadata: GgufMetadata, key: string, length: number): readonly number[] | null {
  const values = metadata.findNumbers(key);
  if (values === null || values.length === length) return values;
  const must = `must have one item for each of ${length} tokens`;
  throw invalidFile({ path: metadata.path, field: key, must, actual: values.length });
}

/** The text of a special token by its metadata name, e.g. `bos`. Null if there is none. */
export function specialToken(
  metadata: GgufMetadata,
  vocabulary: GgufVocabulary,
  name: string,
): { readonly id: number; readonly text: string } | null {
  const key = `tokenizer.ggml.${name}_token_id`;
  const id = metadata.findCount(key);
  if (id === null) return null;
  const text = vocabulary.tokens[id];
  if (text !== undefined) return { id, text };
  const must = `must be below ${vocabulary.tokens.length}, the number of tokens`;
  throw invalidFile({ path: metadata.path, field: key, must, actual: id });
}

/** `added_tokens` of tokenizer.json: texts that are cut out before any other step. */
export function addedTokens({ tokens, control, userDefined }: GgufVocabulary): JsonObject[] {
  const added: JsonObject[] = [];
  for (const [id, content] of tokens.entries()) {
    const special = control.has(id);
    if (!special && !userDefined.has(id)) continue;
    const match = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    added.push({ id, content, ...match, special });
  }
  return added;
}

/** Texts of control tokens that end a turn in the known chat formats. */
const TURN_ENDS: ReadonlySet<string> = new Set([
  ...["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>"],
  ...["<|end_of_text|>", "<EOT>", "_<EOT>", "<end_of_utterance>"],
]);

/**
 * Ids that end a generation: the stated ones, and control tokens that end a turn, because many
 * files state only the token that ends a document. In ascending order.
 */
export function endTokenIds(metadata: GgufMetadata, vocabulary: GgufVocabulary): number[] {
  const ids = new Set<number>();
  for (const name of ["eos", "eot", "eom"]) {
    const token = specialToken(metadata, vocabulary, name);
    if (token !== null) ids.add(token.id);
  }
  for (const id of vocabulary.control) {
    if (TURN_ENDS.has(vocabulary.tokens[id] ?? "")) ids.add(id);
  }
  return [...ids].sort((a, b) => a - b);
}
