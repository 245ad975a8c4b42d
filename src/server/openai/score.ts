/** POST /v1/score and /score, as in vLLM. */
import { z } from "zod";
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "./answer.ts";
import { checkModelName } from "./delivery.ts";
import { scoreFields, scoresOf, textField, textsField, wordsOf } from "./pair-scores.ts";
import { fieldError, parseRequest } from "./parse-request.ts";

const oneOrMore = z.union([textField, textsField], "must be a text, or a list of texts");

/** Body of the routes that score. */
export const ScoreRequest = z.strictObject({
  ...scoreFields,
  /** One, or as many as `text_2`. */
  text_1: oneOrMore,
  text_2: oneOrMore,
});
export type ScoreRequest = z.output<typeof ScoreRequest>;

export async function score(context: ServerContext, body: unknown, call: Call): Promise<Answer> {
  const request = parseRequest(ScoreRequest, body);
  checkModelName(context, request.model);
  const queries = listOf(request.text_1);
  const texts = listOf(request.text_2);
  if (queries.length !== 1 && queries.length !== texts.length) {
    throw fieldError(
      "text_1",
      `must be one text, or as many as the ${texts.length} of text_2, current value is ` +
        `${queries.length} texts`,
    );
  }
  const results = await scoresOf(context, { queries, texts }, { request, call });
  const { prompt_tokens, completion_tokens, total_tokens } = call.usage.usage();
  const value = {
    id: `score-${call.id}`,
    object: "list",
    created: call.created,
    model: request.model ?? context.modelNames[0],
    data: results.map((result, index) => ({ index, object: "score", score: result.score })),
    usage: { prompt_tokens, total_tokens, completion_tokens },
  };
  return { kind: "json", value };
}

function listOf(field: z.output<typeof oneOrMore>): string[] {
  return (Array.isArray(field) ? field : [field]).map(wordsOf);
}
