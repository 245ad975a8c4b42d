/** Checks what a caller says that another engine generated. */
import { EngineError } from "#base";
import type { EarlierTokens, TokenPrompt } from "#engine/protocol";
import type { SamplingParams } from "#sampling";
import { checkPromptLength, checkTokenIds, wrongKind } from "./request-check.ts";

/** What the tokens must fit. */
export interface GeneratedScope {
  readonly params: SamplingParams;
  readonly vocabularySize: number;
  readonly contextTokensMax: number;
}

/**
 * The prompt's tokens from elsewhere, in arrays of their own; null: it begins here. JavaScript
 * callers may pass any values. Throws INVALID_ARGUMENT, and PROMPT_TOO_LONG for what certainly does
 * not fit the context.
 */
export function checkedGenerated(
  { promptTokenIds, generated }: TokenPrompt,
  { params, vocabularySize, contextTokensMax }: GeneratedScope,
): readonly EarlierTokens[] | null {
  if (generated === undefined || generated === null) return null;
  if (!Array.isArray(generated)) throw wrongKind("generated", "a list of sequences", generated);
  if (params.beamWidth !== null) throw unusable("a beam search cannot go on, its beams start anew");
  if (generated.length !== params.n) {
    throw unusable(`it must have an entry for each of n = ${params.n}, it has ${generated.length}`);
  }
  const checked = generated.map((sequence: unknown, index) => {
    const name = `generated[${index}]`;
    const { tokenIds, ended = false } = (sequence ?? {}) as Record<string, unknown>;
    const isList = Array.isArray(tokenIds) || ArrayBuffer.isView(tokenIds);
    if (!isList) throw wrongKind(`${name}.tokenIds`, "a list of token ids", tokenIds);
    if (typeof ended !== "boolean") throw wrongKind(`${name}.ended`, "true or false", ended);
    const ids = tokenIds as ArrayLike<number>;
    checkPromptLength(promptTokenIds.length + ids.length, contextTokensMax);
    return { tokenIds: checkTokenIds(`${name}.tokenIds`, ids, vocabularySize), ended };
  });
  if (checked.every(({ ended }) => ended)) throw unusable("one of its sequences must not be ended");
  return checked.every(({ tokenIds, ended }) => !ended && tokenIds.length === 0) ? null : checked;
}

/** The seed of a prompt, if it has one. Throws INVALID_ARGUMENT. */
export function checkedSeed({ seed }: TokenPrompt): number | null {
  if (seed === undefined || seed === null) return null;
  if (Number.isSafeInteger(seed)) return seed;
  throw wrongKind("seed", "an integer of at most 53 bits", seed);
}

function unusable(why: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot use generated: ${why}`, {
    param: "generated",
  });
}
