import type { FleetTraffic } from "./fleet-traffic.ts";

/**
 * The hit rate of one cache without bounds that has every prompt as soon as it came: the ceiling of
 * any fleet. Cached tokens of all prompt tokens; the last token of a prompt is always computed.
 */
export function idealHitRate({ requests, blockTokens }: FleetTraffic): number {
  const stored = new Set<number>();
  let prompt = 0;
  let cached = 0;
  for (const { make } of requests) {
    const { tokens } = make();
    prompt += tokens.length;
    cached += Math.min(leadingTokens(tokens, blockTokens, stored), tokens.length - 1);
  }
  return prompt === 0 ? 0 : cached / prompt;
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
