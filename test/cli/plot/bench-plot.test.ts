import { expect, test } from "vitest";
import { picture } from "#charts";
import type { OnlineRun } from "../../../src/cli/bench/online.ts";
import { sweptAxis } from "../../../src/cli/bench/sweep.ts";
import { offlineCharts, onlineCharts, sweepCharts } from "../../../src/cli/plot/bench-plot.ts";
import { partsOf } from "../../charts/svg-parts.ts";

const spread = (p50: number) => ({ mean: p50, p50, p90: 2 * p50, p99: 3 * p50 });

function runOf(requestRate: number, gapsMs: readonly number[] = [1, 2, 3]): OnlineRun {
  return {
    samples: { firstTokenMs: [30, 10, 20], gapsMs, endToEndMs: [300, 100, 200] },
    result: {
      ...{ benchmark: "serve", url: "http://a", model: "<m>", apiKey: undefined, prompts: 3 },
      ...{ inputLength: 8, outputLength: 4, requestRate, concurrencyMax: 2, vocabularySize: 9 },
      ...{ seed: 1, text: false, chat: false, dataset: null, warmups: 0, completed: 3, failed: 0 },
      ...{ seconds: 1, requestsPerSecond: 3, outputTokensPerSecond: 100 * requestRate },
      ...{ promptTokens: 24, cachedTokens: 0, cachedShare: 0 },
      timeToFirstTokenMs: spread(10 * requestRate),
      interTokenMs: spread(requestRate),
      endToEndMs: spread(100),
    },
  };
}

test("one load is drawn as distributions, from the shortest time to the longest", () => {
  const charts = onlineCharts(runOf(Number.POSITIVE_INFINITY));
  expect(charts.map(({ title }) => title)).toEqual([
    "Time to the first token, and to the last",
    "Time between tokens",
  ]);
  const [first] = charts[0]?.kind === "lines" ? charts[0].series : [];
  expect(first?.points[0]).toEqual([10, 0]);
  expect(first?.points[50]).toEqual([20, 50]);
  expect(first?.points.at(-1)).toEqual([30, 100]);
  expect(charts[0]?.subtitle).toContain("all at once, at most 2 at a time");
  expect(partsOf(picture(charts)).texts.join(" ")).toContain("<m> at http://a");
});

test("outputs of one token have no gaps, and no picture of them", () => {
  expect(onlineCharts(runOf(1, []))).toHaveLength(1);
});

test("several loads are drawn by rising load: speed, and percentiles of both times", () => {
  const charts = sweepCharts([runOf(4), runOf(1), runOf(2)], "requestRate");
  expect(charts).toMatchObject([
    {
      x: { label: "requests sent a second", names: ["1", "2", "4"] },
      series: [
        {
          points: [
            [0, 100],
            [1, 200],
            [2, 400],
          ],
        },
      ],
    },
    {
      title: "Time to the first token",
      series: [
        {
          name: "p50",
          points: [
            [0, 10],
            [1, 20],
            [2, 40],
          ],
        },
        {
          name: "p90",
          points: [
            [0, 20],
            [1, 40],
            [2, 80],
          ],
        },
        {
          name: "p99",
          points: [
            [0, 30],
            [1, 60],
            [2, 120],
          ],
        },
      ],
    },
    { title: "Time between tokens" },
  ]);
  partsOf(picture(charts));
});

test("a list may be given for one of both, not for both", () => {
  const one = [1];
  expect(sweptAxis({ requestRates: one, concurrencies: one })).toBeNull();
  expect(sweptAxis({ requestRates: [1, 2], concurrencies: one })).toBe("requestRate");
  expect(sweptAxis({ requestRates: one, concurrencies: [1, 2] })).toBe("concurrencyMax");
  expect(() => sweptAxis({ requestRates: [1, 2], concurrencies: [1, 2] })).toThrow(
    "give one of them a single number",
  );
});

test("timed runs stand beside those without drafts and the time that a GPU allows", () => {
  const text = { model: "m", device: "cuda", prompts: 8, inputLength: 4, outputLength: 2 };
  const timed = { seconds: [2, 3], undrafted: [4, 5] };
  expect(offlineCharts(timed, text, 1)).toMatchObject([
    {
      subtitle: "m on cuda: 8 prompts of 4 tokens, 2 tokens generated for each",
      x: { names: ["1", "2"] },
      limits: [{ axis: "y", value: 1, name: "the GPU's limit" }],
      series: [
        {
          name: "with drafts",
          points: [
            [0, 2],
            [1, 3],
          ],
        },
        {
          name: "without drafts",
          points: [
            [0, 4],
            [1, 5],
          ],
        },
      ],
    },
  ]);
  const [plain] = offlineCharts({ seconds: [2], undrafted: [] }, text, null);
  expect(plain).toMatchObject({ limits: [], series: [{ name: "runs" }] });
});
