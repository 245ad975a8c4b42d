import { median } from "./machine.mjs";

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

/** All of the work on one side: the prompt, then every number of streams. Rates are tokens/s. */
export async function measureWork(timePrefill, timeStreams) {
  const { rates, startMs } = await timePrefill();
  const results = { prefill: { median: median(rates), all: rates } };
  for (const streams of WORK.streams) {
    const all = await timeStreams(streams);
    results[`streams${streams}`] = { median: median(all), all };
  }
  return { results, startMs };
}
