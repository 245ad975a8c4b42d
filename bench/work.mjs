import { median } from "./machine.mjs";

/** The work that is timed, the same for both sides. */
export const WORK = {
  /** Lengths of prompts that are timed. */
  prompts: [512, 4096],
  promptTokens: 32,
  outputTokens: 128,
  streams: [1, 8, 16],
  /** Token ids of a given model that are used. */
  vocabulary: 8000,
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

/** All of the work on one side: the prompts, then every number of streams. Rates are tokens/s. */
export async function measureWork(work, timePrefill, timeStreams) {
  const results = {};
  let startMs = null;
  for (const tokens of work.prompts) {
    const { rates, firstMs } = await timePrefill(tokens);
    startMs ??= firstMs;
    results[`prompt ${tokens}`] = { median: median(rates), all: rates };
  }
  for (const streams of work.streams) {
    const all = await timeStreams(streams);
    results[`streams ${streams}`] = { median: median(all), all };
  }
  return { results, startMs };
}
