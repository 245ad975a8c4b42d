/** POST /v1/completions, without streaming. */
import type { Completion, GenerateResult } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import { type Answer, finishReason } from "./answer.ts";
import { type CompletionsGeneration, completionsGeneration } from "./completions-generation.ts";
import { CompletionsRequest } from "./completions-request.ts";
import { completionsEvents } from "./completions-stream.ts";
import { checkModelName } from "./delivery.ts";
import { CompletionLogprobsWriter, promptLogprobs } from "./logprobs.ts";
import { parseRequest } from "./parse-request.ts";

export async function completions(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const request = parseRequest(CompletionsRequest, body);
  checkModelName(context, request.model);
  const generation = await completionsGeneration(context, request, call);
  if (request.stream === true) {
    return { kind: "events", events: completionsEvents(context.model, generation) };
  }
  const results = await context.model.generate(generation.prompts, generation.options);
  return { kind: "json", value: completionsAnswer(generation, results) };
}

function completionsAnswer(
  generation: CompletionsGeneration,
  results: readonly GenerateResult[],
): unknown {
  const { promptOnly, usage } = generation;
  const choices = results.flatMap((result, promptIndex) =>
    result.completions.map((completion) => {
      usage.add(
        promptIndex,
        result,
        promptOnly ? 0 : completion.tokenIds.length,
        completion.drafts,
      );
      usage.hold(promptIndex, completion);
      return completionChoice(generation, { result, promptIndex, completion });
    }),
  );
  return {
    id: generation.id,
    object: "text_completion",
    created: generation.created,
    model: generation.modelName,
    choices,
    usage: usage.usage(),
  };
}

interface Finished {
  readonly result: GenerateResult;
  readonly promptIndex: number;
  readonly completion: Completion;
}

function completionChoice(
  generation: CompletionsGeneration,
  { result, promptIndex, completion }: Finished,
): unknown {
  const { promptOnly, echoes, tokens } = generation;
  const generated = promptOnly ? "" : (completion.text ?? "");
  return {
    index: promptIndex * (generation.options.n ?? 1) + completion.index,
    text: (echoes?.[promptIndex] ?? "") + generated,
    logprobs: completionLogprobs(generation, result, completion),
    finish_reason: promptOnly ? "length" : finishReason(completion.finishReason),
    stop_reason: promptOnly ? null : completion.stopReason,
    ...(completion.score === null ? {} : { score: completion.score }),
    ...(generation.request.prompt_logprobs == null || result.promptLogprobs === null
      ? {}
      : { prompt_logprobs: promptLogprobs(result.promptLogprobs, tokens) }),
    ...(generation.withTokenIds
      ? {
          token_ids: promptOnly ? [] : completion.tokenIds,
          prompt_token_ids: result.promptTokenIds,
        }
      : {}),
  };
}

function completionLogprobs(
  generation: CompletionsGeneration,
  result: GenerateResult,
  completion: Completion,
): unknown {
  if (generation.request.logprobs == null) return null;
  const echoed = generation.echoes !== null;
  const ids = [
    ...(echoed ? result.promptTokenIds : []),
    ...(generation.promptOnly ? [] : completion.tokenIds),
  ];
  const positions = [
    ...(echoed ? (result.promptLogprobs ?? []) : []),
    ...(generation.promptOnly ? [] : (completion.logprobs ?? [])),
  ];
  return new CompletionLogprobsWriter(generation.tokens).write(ids, positions);
}
