/**
 * The rule by which names become tokens (docs/traffic.md): token `k` of the contents named (a, b)
 * is word number `philox(counter = [k >> 2, a, b, 0], seed)[k & 3] % words`, of the vocabulary's
 * words by rising id. Other projects can make the same prompts from the same trace.
 */
import { philox, type Seed, seedFrom } from "#base";
import { type MockVocabulary, mockOutput } from "#engine/mock";
import type { TrafficPiece, TrafficRequest } from "./traffic.ts";

/** The seed of the rule. */
export const TOKEN_SEED: Seed = seedFrom(0x7065726967_6565n);

/** The ids that made-up tokens are taken from; answers are made as mock workers make them. */
export type TrafficVocabulary = Pick<MockVocabulary, "tokenIds">;

/** Tokens of contents, from the first on. */
export function namedTokens(
  [a, b]: readonly [number, number],
  count: number,
  { tokenIds }: TrafficVocabulary,
): Int32Array {
  const tokens = new Int32Array(count);
  for (let start = 0; start < count; start += 4) {
    const words = philox([start >>> 2, a >>> 0, b >>> 0, 0], TOKEN_SEED);
    const end = Math.min(4, count - start);
    for (let place = 0; place < end; place++) {
      tokens[start + place] = tokenIds[(words[place] ?? 0) % tokenIds.length] ?? 0;
    }
  }
  return tokens;
}

/**
 * A request's prompt. Its answers are those that a mock worker of this vocabulary gives to a greedy
 * request of the tokens before them.
 */
export function promptOf(request: TrafficRequest, vocabulary: TrafficVocabulary): Int32Array {
  const prompt = new Int32Array(Math.max(1, request.promptTokens));
  let length = 0;
  for (const piece of request.pieces) {
    prompt.set(tokensOf(piece, prompt.subarray(0, length), vocabulary), length);
    length += piece.tokens;
  }
  return prompt;
}

function tokensOf(
  { name, tokens }: TrafficPiece,
  before: Int32Array,
  vocabulary: TrafficVocabulary,
): Int32Array {
  if (name !== null) return namedTokens(name, tokens, vocabulary);
  const endless = { ...vocabulary, endTokenId: null, meanOutputTokens: 1 };
  return mockOutput(endless, before, { count: tokens });
}
