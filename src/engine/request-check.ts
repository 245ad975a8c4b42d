import { EngineError } from "#base";
import { type PositionLogprobs, type SamplingOptions, SamplingParams } from "#sampling";
import type { Completion, GenerateResult, StreamItem } from "./api.ts";

/** Fills in defaults and checks ranges; every id must be in the vocabulary. Throws INVALID_ARGUMENT. */
export function parseSampling(options: SamplingOptions, vocabularySize: number): SamplingParams {
  const result = SamplingParams.safeParse(options);
  if (!result.success) {
    const [issue] = result.error.issues;
    const param = issue?.path.join(".") ?? "";
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use ${param || "options"}: ${issue?.message}`,
      {
        param,
        cause: result.error,
      },
    );
  }
  const params = result.data;
  checkVocabulary("stopTokenIds", params.stopTokenIds, vocabularySize);
  checkVocabulary("allowedTokenIds", params.allowedTokenIds ?? [], vocabularySize);
  checkVocabulary(
    "logitBias",
    params.logitBias.map(({ token }) => token),
    vocabularySize,
  );
  return params;
}

/** A prompt needs at least one token, all of them in the vocabulary. */
export function checkTokenIds(ids: readonly number[], vocabularySize: number): void {
  if (ids.length === 0) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot use prompt: wanted at least one token, got none",
      {
        param: "prompt",
      },
    );
  }
  checkVocabulary("prompt", ids, vocabularySize);
}

function checkVocabulary(param: string, ids: readonly number[], vocabularySize: number): void {
  const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabularySize);
  if (wrong === undefined) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${param}: token ids must be integers from 0 to ${vocabularySize - 1}, current value is ${wrong}`,
    { param },
  );
}

interface Partial {
  text: string | null;
  readonly tokenIds: number[];
  readonly logprobs: PositionLogprobs[];
  withLogprobs: boolean;
  last: StreamItem;
}

/** Reads a stream to its end. */
export async function collectResult(
  requestId: string,
  items: AsyncIterable<StreamItem>,
): Promise<GenerateResult> {
  const parts = new Map<number, Partial>();
  let prompt: StreamItem["prompt"] | null = null;
  for await (const item of items) {
    prompt ??= item.prompt;
    const part = parts.get(item.index) ?? startPart(item);
    parts.set(item.index, part);
    if (item.text !== null) part.text = (part.text ?? "") + item.text;
    part.tokenIds.push(...item.tokenIds);
    part.withLogprobs ||= item.logprobs !== null;
    part.logprobs.push(...(item.logprobs ?? []));
    part.last = item;
  }
  if (prompt === null) throw new EngineError("ABORTED", "Cannot finish: the request was cancelled");
  const completions = [...parts.values()].map(toCompletion);
  return { ...prompt, requestId, completions: completions.sort((a, b) => a.index - b.index) };
}

function startPart(item: StreamItem): Partial {
  return { text: null, tokenIds: [], logprobs: [], withLogprobs: false, last: item };
}

function toCompletion(part: Partial): Completion {
  const { text, tokenIds, logprobs, withLogprobs, last } = part;
  const total = logprobs.reduce((sum, { logprob }) => sum + logprob, 0);
  return {
    index: last.index,
    text,
    tokenIds,
    logprobs: withLogprobs ? logprobs : null,
    cumulativeLogprob: withLogprobs ? total : null,
    finishReason: last.finishReason ?? "abort",
    stopReason: last.stopReason,
  };
}
