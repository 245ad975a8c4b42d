import { addScaled, at, dot, softmax } from "#tensor";

/** Keys and values that one query head attends to, [D] each, in position order. */
export interface Seen {
  readonly keys: readonly Float32Array[];
  readonly values: readonly Float32Array[];
}

export interface AttendOptions {
  readonly scale: number;
  readonly softcap?: number | undefined;
  /** [D]: scores the first `count` keys in place of the query. */
  readonly sinks?: { readonly count: number; readonly query: Float32Array } | undefined;
}

/**
 * [D]: softmax(scale * query . keys) . values, for one head of one query. Zero without visible
 * keys. Source: Vaswani et al. 2017, "Attention is all you need".
 */
export function attend(query: Float32Array, seen: Seen, options: AttendOptions): Float32Array {
  const out = new Float64Array(query.length);
  if (seen.keys.length === 0) return Float32Array.from(out);
  const { scale, softcap, sinks } = options;
  const scores = seen.keys.map((key, i) => {
    const scorer = sinks !== undefined && i < sinks.count ? sinks.query : query;
    return capped(scale * dot(scorer, key), softcap);
  });
  const weights = softmax(scores);
  seen.values.forEach((value, i) => {
    addScaled(out, value, at(weights, i));
  });
  return Float32Array.from(out);
}

function capped(score: number, cap: number | undefined): number {
  return cap === undefined ? score : cap * Math.tanh(score / cap);
}
