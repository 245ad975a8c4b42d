/** Prompts of completions and embeddings: texts or token ids, one or many. */
import { z } from "zod";
import { EngineError } from "#base";
import type { EncodeTextOptions, TextCodec } from "#engine";
import { LIST_LIMITS } from "./bounded.ts";
import { isTokenIds } from "./fields.ts";

/** OpenAI's `prompt` and `input`: text or token ids, or a list of either. */
export type PromptField = string | string[] | number[] | number[][];
/** Checked in one pass, because a body may hold a million token ids. */
export const promptField = z.custom<PromptField>(
  isPromptField,
  "must be text, a list of texts, token ids, or a list of lists of token ids; " +
    `of at most ${LIST_LIMITS.prompts} prompts`,
);

function isPromptField(value: unknown): value is PromptField {
  if (typeof value === "string" || isTokenIds(value)) return true;
  if (!Array.isArray(value) || value.length === 0 || value.length > LIST_LIMITS.prompts) {
    return false;
  }
  return value.every((item) => typeof item === "string") || value.every(isTokenIds);
}

/** One prompt of a request. */
export interface EncodedPrompt {
  /** The text as given; null for a prompt of token ids. */
  readonly text: string | null;
  readonly tokenIds: number[];
}

/** Each prompt's token ids, in order. Throws TOKENIZER_MISSING for text without a tokenizer. */
export async function encodePrompts(
  codec: TextCodec | null,
  field: PromptField,
  options: EncodeTextOptions,
): Promise<EncodedPrompt[]> {
  const prompts = promptList(field);
  const texts = prompts.filter((prompt) => typeof prompt === "string");
  // A field holds texts or ids, never both.
  if (texts.length === 0) return idsOf(prompts).map((tokenIds) => ({ text: null, tokenIds }));
  const encoded = await needCodec(codec).encodeAll(texts, options);
  return encoded.map((tokenIds, i) => ({ text: texts[i] ?? null, tokenIds }));
}

function idsOf(prompts: readonly (string | number[])[]): number[][] {
  return prompts.filter((prompt) => typeof prompt !== "string");
}

/** Throws TOKENIZER_MISSING for a model that has token ids only. */
export function needCodec(codec: TextCodec | null): TextCodec {
  if (codec !== null) return codec;
  throw new EngineError(
    "TOKENIZER_MISSING",
    "Cannot read text: the model has no tokenizer; send token ids instead",
  );
}

function promptList(field: PromptField): readonly (string | number[])[] {
  if (typeof field === "string") return [field];
  return isOnePrompt(field) ? [field] : field;
}

function isOnePrompt(field: string[] | number[] | number[][]): field is number[] {
  return typeof field[0] === "number"; // the schema has checked the others
}
