/** What `/v1/rerank` and `/v1/score` have in common: fields, and scores of the served model. */
import { z } from "zod";
import { EngineError } from "#base";
import type { ScoreOptions, ScoreResult } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import { boundedList, LIST_LIMITS } from "./bounded.ts";
import { deliveryFields, ignoredFields, unsupported } from "./fields.ts";

/** A text, or an object with one, as Cohere and Jina take them. */
export const textField = z.union(
  [z.string(), z.strictObject({ text: z.string() })],
  "must be a text, or an object with a text",
);
export type TextField = z.output<typeof textField>;

/** A list of texts; at least one. */
export const textsField = boundedList(textField, { min: 1, max: LIST_LIMITS.documents });

/** Fields of both routes. */
export const scoreFields = {
  model: deliveryFields.model,
  truncate_prompt_tokens: deliveryFields.truncate_prompt_tokens,
  truncation_side: unsupported("right"),
  /** vLLM's: false gives a cross-encoder's output without its sigmoid. */
  use_activation: z.boolean().nullish(),
  priority: deliveryFields.priority,
  request_id: deliveryFields.request_id,
  ...ignoredFields,
};

const ScoreFields = z.object(scoreFields);

/** The words of a text field. */
export function wordsOf(field: TextField): string {
  return typeof field === "string" ? field : field.text;
}

/**
 * Scores with the served model, and counts the tokens. Throws UNSUPPORTED_MODEL for one that was
 * trained neither to rerank nor to embed: its scores would mean little.
 */
export async function scoresOf(
  { model }: ServerContext,
  { queries, texts }: { readonly queries: readonly string[]; readonly texts: readonly string[] },
  { request, call }: { readonly request: z.output<typeof ScoreFields>; readonly call: Call },
): Promise<ScoreResult[]> {
  const { pairScoring, embedding, name } = model.info;
  if (pairScoring === null && embedding?.declared !== true) throw scoresNothing(name);
  if (model.score === undefined) throw scoresNothing(name);
  const results = await model.score(queries, texts, optionsOf(request, call));
  call.usage.addPromptTokens(results.reduce((sum, { tokens }) => sum + tokens, 0));
  return results;
}

function optionsOf(request: z.output<typeof ScoreFields>, { signal }: Call): ScoreOptions {
  const { truncate_prompt_tokens: wanted, use_activation: activation } = request;
  return {
    signal,
    ...(wanted != null && wanted !== -1 && { tokensMax: Math.max(1, wanted) }),
    ...(activation === false && { raw: true }),
  };
}

function scoresNothing(name: string): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot score texts: ${name} must be a cross-encoder, or a model whose folder says how to ` +
      "embed, it is neither; serve one such as cross-encoder/ms-marco-MiniLM-L6-v2 or " +
      "sentence-transformers/all-MiniLM-L6-v2",
    { param: "model" },
  );
}
