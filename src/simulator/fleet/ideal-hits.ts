import type { Traffic, TrafficRequest } from "../traffic/index.ts";
import { fleetPrompt } from "./fleet-prompts.ts";

/**
 * The hit rate of one cache without bounds that has every prompt and its answer as soon as it
 * came: the ceiling of any fleet. Cached tokens of all prompt tokens, whole blocks only; the last
 * token of a prompt is always computed. `promptOf`: how prompts become tokens.
 */
export function idealHitRate(
  { requests }: Traffic,
  blockTokens: number,
  promptOf: (request: TrafficRequest) => Int32Array = fleetPrompt,
): number {
  const stored = new Set<number>();
  const answered = new Set(requests.map(({ after }) => after));
  let promptTokens = 0;
  let cachedTokens = 0;
  for (const request of requests) {
    const tokens = promptOf(request);
    promptTokens += tokens.length;
    cachedTokens += Math.min(leadingTokens(tokens, blockTokens, stored), tokens.length - 1);
    if (answered.has(request.id))
      leadingTokens(promptOf(withAnswer(request)).subarray(0, -1), blockTokens, stored);
  }
  return promptTokens === 0 ? 0 : cachedTokens / promptTokens;
}

/** A request whose prompt is another's, and the answer. The last token is never computed. */
function withAnswer(request: TrafficRequest): TrafficRequest {
  const answer = { role: "assistant", name: null, tokens: request.outputTokens } as const;
  return {
    ...request,
    pieces: [...request.pieces, answer],
    promptTokens: request.promptTokens + request.outputTokens,
  };
}

/** Adds a prompt's blocks to those stored; returns the tokens of those that led it already. */
function leadingTokens(tokens: Int32Array, blockTokens: number, stored: Set<number>): number {
  let low = 0x811c9dc5;
  let high = 0x1b873593;
  let leading = 0;
  let found = true;
  for (let end = blockTokens; end <= tokens.length; end += blockTokens) {
    for (let at = end - blockTokens; at < end; at++) {
      const token = tokens[at] ?? 0;
      low = Math.imul(low ^ token, 0x01000193);
      high = Math.imul(high ^ token, 0x85ebca6b) ^ (low >>> 15);
    }
    const name = (low >>> 0) + (high & 0x1fffff) * 2 ** 32;
    found &&= stored.has(name);
    if (found) leading = end;
    stored.add(name);
  }
  return leading;
}
