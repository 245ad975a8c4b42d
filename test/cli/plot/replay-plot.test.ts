import { expect, test } from "vitest";
import { picture } from "#charts";
import { type ReplayRow, replayCharts } from "../../../src/cli/plot/replay-plot.ts";
import { partsOf } from "../../charts/svg-parts.ts";

const row = (
  policy: "lru" | "lfu",
  capacityBlocks: number | null,
  blockHitRate: number,
): ReplayRow => ({
  ...{ policy, capacityBlocks, blockHitRate, requests: 1200, blockRefs: 30_000 },
});

test("hit rates are lines over pool sizes, and without bound a line through all", () => {
  const rows = [
    ...[row("lru", 1000, 0.2), row("lru", 10, 0.1), row("lru", null, 0.5)],
    ...[row("lfu", 10, 0.05), row("lfu", 1000, 0.3), row("lfu", null, 0.5)],
  ];
  const [chart, ...others] = replayCharts(rows, { trace: "load.jsonl" });
  expect(others).toEqual([]);
  expect(chart).toMatchObject({
    kind: "lines",
    subtitle: "load.jsonl: 1,200 requests, 30,000 block references",
    x: { scale: "log" },
    limits: [{ axis: "y", value: 0.5, name: "without bound" }],
    series: [
      {
        name: "lru",
        points: [
          [10, 0.1],
          [1000, 0.2],
        ],
      },
      {
        name: "lfu",
        points: [
          [10, 0.05],
          [1000, 0.3],
        ],
      },
    ],
  });
});

test("policies that find the same are one line with both names", () => {
  const rows = [row("lru", 1, 0.1), row("lru", 2, 0.2), row("lfu", 2, 0.2), row("lfu", 1, 0.1)];
  const [chart] = replayCharts(rows, { trace: "t" });
  expect(chart?.series).toMatchObject([{ name: "lru, lfu" }]);
});

test("of one size there are bars, a row for each policy", () => {
  const [chart] = replayCharts([row("lru", 10, 0.1), row("lru", null, 0.5), row("lfu", 10, 0.2)], {
    trace: "t",
  });
  expect(chart).toMatchObject({
    kind: "bars",
    series: ["10 blocks", "without bound"],
    rows: [
      { label: "lru", values: [0.1, 0.5], texts: ["0.1000", "0.5000"] },
      { label: "lfu", values: [0.2, null] },
    ],
  });
});

test("a trace's name is text, whatever it is", () => {
  const trace = `</text><script>alert("1")</script>`;
  const charts = replayCharts([row("lru", 10, 0.1)], { trace });
  expect(partsOf(picture(charts)).texts.some((text) => text.includes("<script>"))).toBe(true);
});
