/** Limits of a request's results per prompt token: logits and log-probabilities. */
import { EngineError } from "#base";
import type { EngineRequest } from "#engine/protocol";

/** Most logits of a prompt: 2 GiB. */
const promptLogitsMax = 2 ** 29;

/** Limits of the rows. */
export interface PromptRowLimits {
  readonly vocabularySize: number;
  /** Most log-probabilities of a prompt's tokens in one request. */
  readonly promptLogprobsMax: number;
}

/** Throws INVALID_ARGUMENT where a prompt's rows would take more memory than they may. */
export function checkPromptRows(
  { params, promptLogits, promptTokenIds }: EngineRequest,
  { vocabularySize, promptLogprobsMax }: PromptRowLimits,
): void {
  const tokens = promptTokenIds.length;
  if (promptLogits && tokens * vocabularySize > promptLogitsMax) {
    throw tooMany("promptLogits", `must be at most ${promptLogitsMax}`, tokens * vocabularySize);
  }
  if (params.promptLogprobs === null) return;
  // The token's own log-probability comes with those of the likeliest.
  const row = 1 + likeliestOf(params.promptLogprobs, vocabularySize);
  if (tokens * row <= promptLogprobsMax) return;
  const most = `must be at most ${promptLogprobsMax} for all tokens of the prompt together`;
  throw tooMany("promptLogprobs", most, `${tokens} tokens with ${row} each`);
}

/** How many alternatives are wanted of each token; -1 means the whole vocabulary. */
export function likeliestOf(promptLogprobs: number, vocabularySize: number): number {
  return promptLogprobs < 0 ? vocabularySize : Math.min(promptLogprobs, vocabularySize);
}

function tooMany(param: string, wanted: string, current: number | string): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${param}: ${wanted}, current value is ${current}; ask for fewer, ` +
      "shorten the prompt, or raise promptLogprobsMax",
    { param },
  );
}
