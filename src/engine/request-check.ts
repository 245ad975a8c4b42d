import { EngineError, invalidSetting, issueText } from "#base";
import { type SamplingOptions, SamplingParams } from "#sampling";

/** Fills in defaults, checks ranges and that ids are in the vocabulary. Throws INVALID_ARGUMENT. */
export function parseSampling(options: SamplingOptions, vocabularySize: number): SamplingParams {
  const result = SamplingParams.safeParse(options, { error: issueText });
  if (!result.success) throw invalidSetting(result.error, options);
  const params = result.data;
  checkBeams(params, vocabularySize);
  const ids = {
    stopTokenIds: params.stopTokenIds,
    allowedTokenIds: params.allowedTokenIds ?? [],
    logprobTokenIds: params.logprobTokenIds ?? [],
    logitBias: params.logitBias.map(({ token }) => token),
  };
  for (const [param, list] of Object.entries(ids)) checkVocabulary(param, list, vocabularySize);
  return params;
}

/** Each beam needs a token to go on with and one in reserve, as it does at Hugging Face. */
function checkBeams({ beamWidth }: SamplingParams, vocabularySize: number): void {
  const most = Math.floor(vocabularySize / 2);
  if (beamWidth === null || beamWidth <= most) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use beamWidth: must be at most half the vocabulary (${most}), ` +
      `current value is ${beamWidth}`,
    { param: "beamWidth" },
  );
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
