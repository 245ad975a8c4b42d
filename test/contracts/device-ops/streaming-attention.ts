/**
 * StreamingLLM by its definition, in plain f64: a cache of unturned keys that forgets what lies
 * between sinks and window, and turns what is left by its place in the cache. Source: Xiao et al.
 * 2023, "Efficient streaming language models with attention sinks".
 */
import type { RopeSpec } from "#models";

/** One sequence through one attention layer. H heads, K kv heads, D head dim. */
export interface StreamingCase {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly tokens: number;
  /** [tokens, (H + 2K) * D]. */
  readonly qkv: Float32Array;
  readonly rope: RopeSpec;
  readonly scale: number;
  /** Places of the cache, the first `sinks` of which are never forgotten. */
  readonly window: number;
  readonly sinks: number;
}

/** [tokens, H * D]: what each token sees of the cache as it is behind that token. */
export function streamingAttention(given: StreamingCase): number[] {
  const { heads, kvHeads, headDim, tokens, window, sinks } = given;
  const out: number[] = [];
  const cached: number[] = [];
  for (let token = 0; token < tokens; token++) {
    cached.push(token);
    if (cached.length > window) cached.splice(sinks, 1);
    const own = cached.length - 1;
    for (let head = 0; head < heads; head++) {
      const kvHead = heads + Math.floor((head * kvHeads) / heads);
      const query = turned(headOf(given, token, head), own, given.rope);
      const scores = cached.map((from, place) => {
        const key = turned(headOf(given, from, kvHead), place, given.rope);
        return given.scale * key.reduce((sum, value, i) => sum + value * (query[i] ?? 0), 0);
      });
      const most = Math.max(...scores);
      const weights = scores.map((score) => Math.exp(score - most));
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      for (let d = 0; d < headDim; d++) {
        const sum = cached.reduce((sofar, from, place) => {
          const value = headOf(given, from, kvHead + kvHeads)[d] ?? 0;
          return sofar + value * (weights[place] ?? 0);
        }, 0);
        out.push(sum / total);
      }
    }
  }
  return out;
}

function headOf(given: StreamingCase, token: number, head: number): number[] {
  const { heads, kvHeads, headDim, qkv } = given;
  const start = (token * (heads + 2 * kvHeads) + head) * headDim;
  return Array.from(qkv.subarray(start, start + headDim));
}

/** Pairs (i, i + half) turned by place * theta^(-2i / rotaryDim). */
function turned(vector: readonly number[], place: number, rope: RopeSpec): number[] {
  const half = rope.rotaryDim / 2;
  const out = [...vector];
  for (let i = 0; i < half; i++) {
    const angle = place * rope.theta ** ((-2 * i) / rope.rotaryDim);
    const [a, b] = [vector[i] ?? 0, vector[i + half] ?? 0];
    out[i] = a * Math.cos(angle) - b * Math.sin(angle);
    out[i + half] = b * Math.cos(angle) + a * Math.sin(angle);
  }
  return out;
}
