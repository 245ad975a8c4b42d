import { assert } from "#base";

/** `kVocabularyThreads` of native/cuda/vocabulary.h. */
export const VOCABULARY_THREADS = 1024;

/** Tokens whose weights, in units of 2^-44 of the likeliest, sum up in 64 bits. */
const tokensMax = 2 ** 19;

/** The vocabulary's size, which the kernels' sums have room for. */
export function checkedVocabulary(tokens: number): number {
  assert(
    tokens > 0 && tokens <= tokensMax,
    `Cannot sample on cuda: a vocabulary of at most ${tokensMax} wanted, ${tokens} given`,
  );
  return tokens;
}
