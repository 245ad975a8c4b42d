import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { defineReplay } from "../../src/cli/commands/replay.ts";
import { partsOf } from "../charts/svg-parts.ts";

const folder = mkdtempSync(join(tmpdir(), "perigee-replay-"));
const path = join(folder, "load.jsonl");
const row = (hash_ids: number[]) =>
  JSON.stringify({ timestamp: 0, input_length: hash_ids.length * 512, output_length: 1, hash_ids });
writeFileSync(path, [row([1, 2]), row([3]), row([1, 2])].join("\n"));
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => vi.restoreAllMocks());

/** What `perigee replay` prints. */
async function replay(...args: string[]): Promise<string> {
  let printed = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    printed += text;
    return true;
  });
  const root = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  const command = root.command("replay");
  command.exitOverride().configureOutput({ writeErr: () => undefined });
  defineReplay(command);
  await root.parseAsync(["replay", ...args], { from: "user" });
  return printed;
}

test("--json prints a row for each policy and capacity, with null for no bound", async () => {
  const text = await replay(path, "--capacity", "2,inf", "--policy", "lru,priority", "--json");
  const rows = JSON.parse(text) as Record<string, unknown>[];
  expect(rows.map(({ policy, capacityBlocks }) => [policy, capacityBlocks])).toEqual([
    ["lru", 2],
    ["lru", null],
    ["priority", 2],
    ["priority", null],
  ]);
  expect(rows[1]).toEqual({
    policy: "lru",
    capacityBlocks: null,
    blockHitRate: 0.4,
    tokenHitRate: 0.4,
    requests: 3,
    blockRefs: 5,
    evictions: 0,
    seconds: expect.any(Number),
  });
  expect(rows[0]).toMatchObject({ blockHitRate: 0.2, evictions: 2 });
});

test("without it, a table with every policy of the paper and every capacity is printed", async () => {
  const lines = (await replay(path)).trim().split("\n");
  expect(lines[0]).toBe("3 requests, 5 block references");
  expect(lines[2]).toMatch(/^policy +capacity +block hits +token hits +evictions +s +M block ops/);
  expect(lines.length).toBe(3 + 4 * 6);
  expect(lines.at(-1)).toMatch(/^priority +inf +0\.4000 +0\.4000 +0 /);
});

test("--plot draws hit rates beside what is printed; a trace's name is only text", async () => {
  const hostile = join(folder, 'a"><script>alert(1)<.jsonl');
  writeFileSync(hostile, readFileSync(path));
  const plot = join(folder, "hits.svg");
  const text = await replay(hostile, "--capacity", "1,2,inf", "--policy", "lru", "--plot", plot);
  expect(text).toMatch(/^3 requests/);
  const { texts, titles } = partsOf(readFileSync(plot, "utf8"));
  expect(texts).toContain('a"><script>alert(1)<.jsonl: 3 requests, 5 block references');
  expect(texts).toContain("without bound");
  expect(titles).toContain("lru: 2, 0.2");
});

test("--csv has a line for each request, pool and policy: what it found", async () => {
  const csv = join(folder, "found.csv");
  const args = ["--capacity", "2,inf", "--policy", "lru", "--csv", csv];
  expect(await replay(path, ...args)).toMatch(/^3 requests/);
  expect(readFileSync(csv, "utf8").split("\n")).toEqual([
    "policy,capacity_blocks,request,arrival_ms,prompt_tokens,cached_tokens,output_tokens",
    ...["lru,2,0,0,1024,0,1", "lru,2,1,0,512,0,1", "lru,2,2,0,1024,512,1"],
    ...["lru,inf,0,0,1024,0,1", "lru,inf,1,0,512,0,1", "lru,inf,2,0,1024,1024,1"],
    "",
  ]);
  await expect(replay(path, "--csv", join(folder, "none", "a.csv"))).rejects.toThrow("for --csv");
});

test("--plot is tried before the trace is read", async () => {
  const none = join(folder, "none.jsonl");
  const lost = join(folder, "none", "a.svg");
  await expect(replay(none, "--plot", lost)).rejects.toThrow("its folder does not exist");
  await expect(replay(none, "--plot", "a.png")).rejects.toThrow("ends in .svg");
  const kept = join(folder, "kept.svg");
  await expect(replay(none, "--plot", kept)).rejects.toThrow("Cannot read trace");
  expect(existsSync(kept)).toBe(false);
});

test("what is no capacity, policy or block length is wrong use", async () => {
  await expect(replay(path, "--capacity", "10,many")).rejects.toThrow("or inf, got many");
  await expect(replay(path, "--capacity", "0")).rejects.toThrow("or inf, got 0");
  await expect(replay(path, "--policy", "lru,fifo")).rejects.toThrow("length-aware");
  await expect(replay(path, "--block-tokens", "0")).rejects.toThrow("Wanted 1 or more");
});

test("a file that is not there is named", async () => {
  await expect(replay(join(folder, "none.jsonl"))).rejects.toThrow("Cannot read trace: wanted");
});
