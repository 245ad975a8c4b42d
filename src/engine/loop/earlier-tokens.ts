/** What other engines generated of a request that goes on here. */
import { type EngineRequest, endedBefore } from "#engine/protocol";
import { endWithin, type Sequence, type StopRules } from "#scheduler";

const NO_TOKENS = new Int32Array(0);

/** Which of the request's sequences are computed here: those that have not ended elsewhere. */
export function liveIndices({ params, generated }: EngineRequest): readonly number[] {
  const { n, beamWidth } = params;
  const all = Array.from({ length: beamWidth ?? n }, (_, index) => index);
  return all.filter((index) => generated?.[index]?.ended !== true);
}

/** Tokens of one sequence from elsewhere. */
export function earlierTokens({ generated }: EngineRequest, index: number): Int32Array {
  return generated?.[index]?.tokenIds ?? NO_TOKENS;
}

/** Tokens of the longest sequence before its next one is sampled. */
export function beginningLength(request: EngineRequest): number {
  const lengths = liveIndices(request).map((index) => earlierTokens(request, index).length);
  return request.promptTokenIds.length + Math.max(0, ...lengths);
}

/** What ends a sequence by itself. */
interface Ends {
  readonly stop: StopRules;
  readonly contextTokensMax: number;
}

/** Throws INVALID_ARGUMENT where a sequence that is to go on has ended with its tokens. */
export function checkOpen(request: EngineRequest, index: number, ends: Ends): void {
  const tokens = earlierTokens(request, index);
  if (tokens.length === 0) return;
  const end = endWithin(request.promptTokenIds, tokens, ends.stop, ends.contextTokensMax);
  if (end !== null) throw endedBefore(index, `token ${end} of ${tokens.length} does`);
}

/** Prompt tokens that were found in a cache: some may have been computed elsewhere for it. */
export function foundTokens(
  { cachedTokens }: Pick<Sequence, "cachedTokens">,
  { computedElsewhere = 0 }: Pick<EngineRequest, "computedElsewhere">,
): number {
  return Math.max(0, cachedTokens - computedElsewhere);
}
