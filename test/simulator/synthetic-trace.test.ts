import { expect, test } from "vitest";
import { SYNTHETIC_REQUESTS, syntheticTrace, type Trace } from "#simulator";

/** Of requests in order, with a cache without end. */
function statisticsOf({ requests }: Trace) {
  const uses = new Map<number, number>();
  let [tokens, hits, outputs] = [0, 0, 0];
  for (const { ids, inputTokens, outputTokens } of requests) {
    const missing = ids.findIndex((id) => !uses.has(id));
    hits += Math.min(512 * (missing < 0 ? ids.length : missing), inputTokens);
    for (const id of ids) uses.set(id, (uses.get(id) ?? 0) + 1);
    tokens += inputTokens;
    outputs += outputTokens;
  }
  const sorted = requests.map(({ inputTokens }) => inputTokens).sort((a, b) => a - b);
  return {
    ...{ requests: requests.length, meanInput: tokens / requests.length },
    meanOutput: outputs / requests.length,
    median: sorted[Math.floor(sorted.length / 2)] ?? 0,
    p90: sorted[Math.floor(0.9 * sorted.length)] ?? 0,
    hitRate: hits / tokens,
    once: [...uses.values()].filter((count) => count === 1).length / uses.size,
    perSecond: (1000 * requests.length) / (requests.at(-1)?.timestampMs ?? 1),
  };
}

test.for([1, 2, 3])("[CO34] of seed %i it has the published trace's statistics", (seed) => {
  const { requests, ...means } = statisticsOf(syntheticTrace({ seed }));
  expect(requests).toBe(SYNTHETIC_REQUESTS);
  // Within 12 %: lengths have a long tail, which no seed meets exactly.
  const published = { meanInput: 15_325.5, meanOutput: 149.1, median: 11_587, p90: 38_615 };
  const rates = { hitRate: 0.6512, once: 0.584, perSecond: 3.91 };
  for (const [name, value] of Object.entries({ ...published, ...rates })) {
    const own = Object.entries(means).find(([known]) => known === name)?.[1] ?? 0;
    expect(Math.abs(own / value - 1), `${name} ${own}`).toBeLessThan(name === "p90" ? 0.2 : 0.12);
  }
});

test("[CO34] the same seed gives the same rows, another one others; rows are well formed", () => {
  const [one, two] = [syntheticTrace({ seed: 7 }), syntheticTrace({ seed: 7 })];
  expect(one).toEqual(two);
  expect(syntheticTrace({ seed: 8 }).requests[0]).not.toEqual(one.requests[0]);
  let before = 0;
  for (const { ids, inputTokens, outputTokens, timestampMs } of one.requests) {
    expect(ids.length).toBe(Math.ceil(inputTokens / 512));
    expect(Math.min(inputTokens, outputTokens)).toBeGreaterThan(0);
    expect(timestampMs).toBeGreaterThanOrEqual(before);
    before = timestampMs;
  }
});

test("[CO34] a block has one block before it, whatever request it is in", () => {
  const parents = new Map<number, number>();
  for (const { ids } of syntheticTrace({ seed: 3 }).requests) {
    ids.forEach((id, at) => {
      const parent = ids[at - 1] ?? -1;
      expect(parents.get(id) ?? parent).toBe(parent);
      parents.set(id, parent);
    });
  }
});
