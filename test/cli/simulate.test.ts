import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { defineSimulate } from "../../src/cli/commands/simulate.ts";

const folder = mkdtempSync(join(tmpdir(), "perigee-simulate-"));
const at = (name: string) => join(folder, name);
const row = (timestamp: number, hash_ids: number[]) =>
  JSON.stringify({ timestamp, input_length: hash_ids.length * 512, output_length: 9, hash_ids });
writeFileSync(at("load.jsonl"), [row(0, [1, 2]), row(5, [3]), row(900, [1, 2, 4])].join("\n"));
writeFileSync(at("tokens.jsonl"), '{"timestamp":0,"output_length":1,"token_ids":[1,2]}');
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => vi.restoreAllMocks());

/** What `perigee simulate` prints. */
async function simulate(...args: string[]): Promise<string> {
  let printed = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    printed += text;
    return true;
  });
  const root = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  const command = root.command("simulate");
  command.exitOverride().configureOutput({ writeErr: () => undefined });
  defineSimulate(command);
  await root.parseAsync(["simulate", ...args], { from: "user" });
  return printed;
}

test("--json prints the result, the same for the same seed, and decisions are lines", async () => {
  const args = [at("load.jsonl"), "--json", "--seed", "7", "--decisions", at("decisions.jsonl")];
  const text = await simulate(...args);
  expect(await simulate(...args)).toBe(text);
  expect(JSON.parse(text)).toMatchObject({ requests: 3, completed: 3, rejected: {}, seed: 7 });
  const lines = readFileSync(at("decisions.jsonl"), "utf8").trim().split("\n");
  expect(lines.map((line) => JSON.parse(line).decision)).toEqual(Array(3).fill("accepted"));
});

test("--csv has a line for each request: tokens, times, nodes and what was decided", async () => {
  const table = async (...args: string[]) => {
    const text = await simulate(at("load.jsonl"), "--json", "--csv", at("requests.csv"), ...args);
    const [names = "", ...lines] = readFileSync(at("requests.csv"), "utf8").trim().split("\n");
    const heads = names.split(",");
    const rows = lines.map((line) =>
      Object.fromEntries(line.split(",").map((cell, column) => [heads[column], cell])),
    );
    return { result: JSON.parse(text), rows };
  };
  const { result, rows } = await table();
  expect(rows.map(({ request }) => request).sort()).toEqual(["0", "1", "2"]);
  const [first, , last] = rows.toSorted((a, b) => Number(a.request) - Number(b.request));
  expect(first).toMatchObject({
    ...{ arrival_ms: "0", prompt_tokens: "1024", cached_tokens: "0", output_tokens: "9" },
    ...{
      decision: "accepted",
      prefill: expect.stringMatching(/./),
      decode: expect.stringMatching(/./),
    },
  });
  expect(last).toMatchObject({ arrival_ms: "900", prompt_tokens: "1536" });
  const sumOf = (name: string) => rows.reduce((sum, row) => sum + Number(row[name]), 0);
  expect(sumOf("cached_tokens") / sumOf("prompt_tokens")).toBeCloseTo(result.hitRate, 6);
  expect(sumOf("ttft_ms") / rows.length).toBeCloseTo(result.ttftMs.mean, 2);
  for (const row of rows) {
    expect(Number(row.tbt_mean_ms)).toBeGreaterThan(0);
    expect(Number(row.tbt_max_ms)).toBeGreaterThanOrEqual(Number(row.tbt_mean_ms));
  }
  const late = await table("--ttft-deadline", "150", "--tbt-deadline", "90");
  const refused = late.rows.filter(({ decision }) => decision !== "accepted");
  const reasons = Object.values(late.result.rejected as Record<string, number>);
  expect(refused.length).toBe(reasons.reduce((sum, count) => sum + count, 0));
  expect(refused[0]).toMatchObject({ decision: "ttft", output_tokens: "", ttft_ms: "" });
});

test("a fleet comes from YAML, and flags go before it", async () => {
  const fleet = "prefillNodes: 2\ndecodeNodes: 1\nconductor:\n  policy: local\n  rejection: none\n";
  writeFileSync(at("fleet.yaml"), fleet);
  const text = await simulate(at("load.jsonl"), "--fleet", at("fleet.yaml"), "--policy", "load");
  expect(text).toContain("load, rejection none");
  expect(text).toMatch(/requests +3, completed 3/);
  const costs = "costs: h200-8b\nprefillNodes: 1\n";
  writeFileSync(at("costs.yaml"), costs);
  expect(await simulate(at("load.jsonl"), "--fleet", at("costs.yaml"))).toContain("completed 3");
});

test("deadlines reject, and the table says why", async () => {
  const text = await simulate(at("load.jsonl"), "--ttft-deadline", "150", "--tbt-deadline", "90");
  expect(text).toMatch(/rejected +ttft \d/);
});

test("[CO33] what is no fleet, trace or value is one line with what is wanted", async () => {
  const refused = async (wanted: string, ...args: string[]) =>
    await expect(simulate(...args)).rejects.toThrow(wanted);
  const fleet = (text: string) => {
    writeFileSync(at("bad.yaml"), text);
    return [at("load.jsonl"), "--fleet", at("bad.yaml")];
  };
  await refused("wanted a readable file", at("none.jsonl"));
  await refused("wanted rows with hash_ids", at("tokens.jsonl"));
  await refused("wanted a YAML file", at("load.jsonl"), "--fleet", at("none.yaml"));
  const bad = `Cannot use ${at("bad.yaml")}, line`;
  await refused(`${bad} 1, column`, ...fleet("a: [1"));
  await refused(
    `${bad} 2, column 1: prefillNodes must be `,
    ...fleet("decodeNodes: 1\nprefillNodes: -1"),
  );
  await refused(
    `${bad} 3, column 3: conductor.policy must be `,
    ...fleet("# pools\nconductor:\n  policy: best\n"),
  );
  await refused(`${bad} 1, column 1: nodes is not a known field`, ...fleet("nodes: 4"));
  await refused("wanted h200-8b", ...fleet("costs: nothing"));
  await refused(`costs stand in ${at("bad.yaml")}`, ...fleet("costs: nothing"));
  await refused("Wanted a number above 0", at("load.jsonl"), "--speed", "0");
  await refused("Allowed choices", at("load.jsonl"), "--policy", "best");
  await refused("wanted a writable file", at("load.jsonl"), "--decisions", join(folder, "a", "b"));
});

test("[CO34] --synthetic is a trace of its own, and either one or the other is wanted", async () => {
  const args = ["--synthetic", "50", "--json"];
  const text = await simulate(...args);
  expect(await simulate(...args)).toBe(text);
  expect(JSON.parse(text)).toMatchObject({ requests: 50, completed: 50 });
  expect(await simulate(...args, "--seed", "2")).not.toBe(text);
  await expect(simulate()).rejects.toThrow("wanted either a trace or --synthetic");
  await expect(simulate(at("load.jsonl"), "--synthetic")).rejects.toThrow("current value is both");
  await expect(simulate("--synthetic", "-1")).rejects.toThrow("Wanted 1 or more");
  await expect(simulate("--synthetic", "1e9")).rejects.toThrow("wanted at most");
});

test("[CO36] coupled nodes come from fleet.yaml", async () => {
  writeFileSync(at("coupled.yaml"), "coupledNodes: 2\ncoupled: { stepTokens: 512 }\n");
  const text = await simulate(at("load.jsonl"), "--fleet", at("coupled.yaml"));
  expect(text).toMatch(/completed 3/);
  writeFileSync(at("coupled.yaml"), "coupled: { step: 512 }\n");
  await expect(simulate(at("load.jsonl"), "--fleet", at("coupled.yaml"))).rejects.toThrow("step");
});

test("[CO40] --report writes one page, whose text is the trace's name and the fleet's", async () => {
  const name = "<b>load.jsonl";
  writeFileSync(at(name), row(0, [1, 2]));
  await simulate(at(name), "--report", at("out.html"), "--ttft-deadline", "500");
  const page = readFileSync(at("out.html"), "utf8");
  expect(page).toContain("&lt;b&gt;load.jsonl on 8 prefill, 8 decode nodes");
  expect(page).toContain("500 ms first token");
  const wrong = simulate(at("load.jsonl"), "--report", join(folder, "a", "b"));
  await expect(wrong).rejects.toThrow("Cannot write report: wanted a writable file");
});
