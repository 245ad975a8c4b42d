/** Log-probabilities in results, and their computation on the host. */

/** One token's log-probability and rank among all tokens (1 = likeliest). */
export interface TokenLogprob {
  readonly tokenId: number;
  readonly logprob: number;
  readonly rank: number;
}

/**
 * The sampled token of a position, and other tokens there: the likeliest, or the requested ones.
 */
export interface PositionLogprobs extends TokenLogprob {
  readonly top: readonly TokenLogprob[];
}

/** Log-probabilities that are requested for one row beside the sampled token's. */
export type LogprobRequest =
  | { readonly kind: "top"; readonly count: number }
  | { readonly kind: "tokens"; readonly tokenIds: readonly number[] };

/** log of the sum of exponentials, without overflow. */
function logSumExp(logits: Float32Array): number {
  let max = Number.NEGATIVE_INFINITY;
  for (const logit of logits) max = Math.max(max, logit);
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - max);
  return max + Math.log(sum);
}

/** Ids of the `count` largest logits, best first, equal ones by rising id. */
function largest(logits: Float32Array, count: number): Int32Array {
  const ids = Int32Array.from(logits.keys());
  ids.sort((a, b) => (logits[b] ?? 0) - (logits[a] ?? 0) || a - b);
  return ids.subarray(0, count);
}

/** 1 + number of larger logits. */
function rankOf(logits: Float32Array, logit: number): number {
  let rank = 1;
  for (const other of logits) if (other > logit) rank++;
  return rank;
}

/**
 * One row [V] on the host: for the whole vocabulary and for chosen tokens, which the device's op
 * does not compute. The likeliest tokens' ranks follow from their order; equal logits have equal
 * ranks.
 */
export function logprobsOfRow(
  logits: Float32Array,
  sampled: number,
  wanted: LogprobRequest,
): PositionLogprobs {
  const normalizer = logSumExp(logits);
  const entry = (tokenId: number): TokenLogprob => {
    const logit = logits[tokenId] ?? Number.NEGATIVE_INFINITY;
    return { tokenId, logprob: logit - normalizer, rank: rankOf(logits, logit) };
  };
  if (wanted.kind === "tokens") return { ...entry(sampled), top: wanted.tokenIds.map(entry) };
  const ids = Array.from(largest(logits, wanted.count));
  const top = withRanks(
    ids.map((tokenId) => ({ tokenId, logprob: (logits[tokenId] ?? 0) - normalizer })),
  );
  return { ...entry(sampled), top };
}

/** Adds ranks to tokens that are sorted best first; equal ones share the first's. */
export function withRanks(
  sorted: readonly { readonly tokenId: number; readonly logprob: number }[],
): TokenLogprob[] {
  let rank = 1;
  return sorted.map((token, place) => {
    if (place > 0 && token.logprob !== sorted[place - 1]?.logprob) rank = place + 1;
    return { ...token, rank };
  });
}
