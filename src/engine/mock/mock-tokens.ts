/**
 * Made-up tokens: a token is a pure function of its sequence's seed, its position and the token
 * before it, so that equal requests have equal outputs on every worker, in every batch, and behind
 * every preemption; a request that another worker continues goes on as if nothing had happened.
 */

/** The ids that are made up, and how outputs end by themselves. */
export interface MockVocabulary {
  /** [n]: ids that outputs consist of; no end token is among them. */
  readonly tokenIds: Int32Array;
  /** The id that ends an output; null: outputs end at their limits only. */
  readonly endTokenId: number | null;
  /** Mean length of outputs that end by themselves, in tokens. */
  readonly meanOutputTokens: number;
}

/** What a token is made from. */
export interface TokenPlace {
  /** Low and high half; both 0 where the request samples greedily. */
  readonly seedLow: number;
  readonly seedHigh: number;
  /** Of the token in its sequence, 0-based. */
  readonly position: number;
  /** The token before it. */
  readonly previous: number;
}

const TWO_32 = 2 ** 32;

/** The token at a place. It ends the output with a probability of 1 / `meanOutputTokens`. */
export function mockToken(vocabulary: MockVocabulary, place: TokenPlace): number {
  const { tokenIds, endTokenId, meanOutputTokens } = vocabulary;
  const word = mixed(place);
  // The high bits decide about the end, a second mixing about the token.
  if (endTokenId !== null && word < TWO_32 / meanOutputTokens) return endTokenId;
  return tokenIds[scramble(word ^ 0x5bd1e995) % tokenIds.length] ?? 0;
}

/** `count` tokens behind a prompt, ends left out: what a mock worker answers to it. */
export function mockOutput(
  vocabulary: MockVocabulary,
  prompt: Int32Array,
  { seed = 0, count }: { readonly seed?: number; readonly count: number },
): Int32Array {
  const endless = { ...vocabulary, endTokenId: null };
  const output = new Int32Array(count);
  let previous = prompt.at(-1) ?? 0;
  for (let place = 0; place < count; place++) {
    const position = prompt.length + place;
    previous = mockToken(endless, { seedLow: seed >>> 0, seedHigh: 0, position, previous });
    output[place] = previous;
  }
  return output;
}

function mixed({ seedLow, seedHigh, position, previous }: TokenPlace): number {
  let word = scramble(seedLow ^ 0x9e3779b9);
  word = scramble(word ^ seedHigh);
  word = scramble(word ^ position);
  return scramble(word ^ previous);
}

/** A bijection of 32 bits that mixes all of them. Source: A. Appleby, MurmurHash3's finaliser. */
function scramble(word: number): number {
  let bits = (word + 0x9e3779b9) | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
