import { EngineError, invalidSetting, issueText } from "#base";
import { type SamplingOptions, SamplingParams } from "#sampling";

/** Fills in defaults, checks ranges and that ids are in the vocabulary. Throws INVALID_ARGUMENT. */
export function parseSampling(options: SamplingOptions, vocabularySize: number): SamplingParams {
  const result = SamplingParams.safeParse(options, { error: issueText });
  if (!result.success) throw invalidSetting(result.error, options);
  const params = result.data;
  const ids = {
    stopTokenIds: params.stopTokenIds,
    allowedTokenIds: params.allowedTokenIds ?? [],
    logprobTokenIds: params.logprobTokenIds ?? [],
    logitBias: params.logitBias.map(({ token }) => token),
  };
  for (const [param, list] of Object.entries(ids)) checkVocabulary(param, list, vocabularySize);
  return params;
}

/** A prompt needs at least one token, all of them in the vocabulary. */
export function checkTokenIds(ids: readonly number[], vocabularySize: number): void {
  if (ids.length === 0) {
    const message = "Cannot use prompt: wanted at least one token, got none";
    throw new EngineError("INVALID_ARGUMENT", message, { param: "prompt" });
  }
  checkVocabulary("prompt", ids, vocabularySize);
}

function checkVocabulary(param: string, ids: readonly number[], vocabularySize: number): void {
  const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabularySize);
  if (wrong === undefined) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${param}: token ids must be integers from 0 to ${vocabularySize - 1}, ` +
      `current value is ${wrong}`,
    { param },
  );
}
