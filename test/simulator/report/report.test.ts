import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ConductorConfig } from "#cluster";
import { lineChart, PAPER_COSTS, poolReport, runPools, syntheticTrace } from "#simulator";
import { axisOf, tickText } from "../../../src/simulator/report/axis.ts";

const HOSTILE = `<script>alert("1")</script>&'`;

function reportOf(title: string): string {
  const conductor = ConductorConfig.parse({ ttftDeadlineMs: 900, tbtDeadlineMs: 60 });
  const trace = syntheticTrace({ seed: 1, requests: 120 });
  const pools = { prefillNodes: 1, decodeNodes: 1, costs: PAPER_COSTS, seed: 1, speed: 3 };
  const result = runPools({ ...pools, trace, conductor });
  const deadlines = { ttftDeadlineMs: 900, tbtDeadlineMs: 60 };
  return poolReport(result, { title, ...deadlines, settings: [[title, title]] });
}

test("[CO40] the page has all pictures and tables, and is the same for the same run", () => {
  const page = reportOf("a fleet");
  expect(reportOf("a fleet")).toBe(page);
  for (const heading of [
    ...["Time to the first token", "Time between tokens", "Prefill pool", "Decode pool"],
    ...["Hit rate", "Replicas of hot blocks", "Rejections", "Rejected requests", "ttft"],
  ]) {
    expect(page).toContain(heading);
  }
  expect(page.match(/<svg /g)?.length).toBe(7);
  expect(page).toContain("prefers-color-scheme:dark");
  expect(page.length).toBeLessThan(200_000);
  expect(page).not.toMatch(/NaN|Infinity|undefined/);
});

test("[CO40] the page fetches nothing, runs nothing, and text in it is only text", () => {
  const page = reportOf(HOSTILE);
  expect(page).not.toContain("<script");
  expect(page).not.toContain(HOSTILE);
  expect(page).toContain("&lt;script&gt;");
  expect(page.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(/https?:|src=|href=|url\(/);
  expect(page).toContain("default-src 'none'");
});

test("[CO40] charts of nothing, of one point and of huge values are drawn", () => {
  const axes = { x: { label: HOSTILE }, y: { label: "y" } };
  for (const points of [[], [[0, 0]], [[1, 1e300]], [[Number.NaN, Number.POSITIVE_INFINITY]]]) {
    const series = [{ name: HOSTILE, points: points as [number, number][] }];
    const picture = lineChart({ ...axes, title: HOSTILE, series });
    expect(picture).not.toContain("<script");
    expect(picture).not.toMatch(/[ML]NaN/);
  }
  const many = Array.from({ length: 100_000 }, (_, at) => [at, at % 7] as const);
  const picture = lineChart({ ...axes, title: "many", series: [{ name: "a", points: many }] });
  expect(picture.length).toBeLessThan(15_000);
});

test("[CO40] axes have round ticks from 0 to the most, or decades", () => {
  expect(axisOf([3, 47], "linear").ticks).toEqual([0, 10, 20, 30, 40, 50]);
  expect(axisOf([3, 4700], "log").ticks).toEqual([1, 10, 100, 1000, 10_000]);
  expect(axisOf([], "log").ticks.length).toBeGreaterThan(1);
  expect([0, 12.345, 1200, 5_000_000].map(tickText)).toEqual(["0", "12.3", "1.2k", "5M"]);
});

test("[CO40] pictures of docs are below 30 KB", () => {
  const page = readFileSync("docs/reproduction.md", "utf8");
  const pictures = [...page.matchAll(/src="(reproduction\/[^"]+\.svg)"/g)];
  expect(pictures.length).toBeGreaterThan(4);
  for (const [, name = ""] of pictures) {
    expect(readFileSync(`docs/${name}`).length, name).toBeLessThan(30_000);
  }
});
