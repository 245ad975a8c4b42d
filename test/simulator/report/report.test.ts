import { expect, test } from "vitest";
import { ConductorConfig } from "#cluster";
import { PAPER_COSTS, poolReport, runPools, syntheticTrace } from "#simulator";

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
