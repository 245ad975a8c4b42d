/** The work that is timed, the same for both sides. */
export const WORK = {
  prefillTokens: 512,
  promptTokens: 32,
  outputTokens: 128,
  streams: [1, 8, 16],
};

/** Seeded token ids between 300 and the vocabulary's end (at most 8000): no end tokens. */
export function randomTokens(count, vocabulary, seed) {
  let state = (seed * 2654435761 + 42) >>> 0 || 42;
  const first = vocabulary > 600 ? 300 : 0;
  const span = Math.min(vocabulary, 8000) - first;
  return Array.from({ length: count }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return first + ((state >>> 0) % span);
  });
}
