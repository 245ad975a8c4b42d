/** A model with a disk level, over several lives. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { LLM, type LoadOptions } from "#engine";
import { fixturePath, openRecordedModel } from "../contracts/recorded-model.ts";

const { cases } = openRecordedModel("llama");
/** 90 tokens and what follows them. */
const long = { promptTokenIds: cases[3]?.prompt ?? [] };
const greedy = { temperature: 0, maxTokens: 24, minTokens: 24 };
const one = { temperature: 0, maxTokens: 1 };
/** What a block of four tokens takes in float32. */
const BLOCK_BYTES = 3072;
const POOL_BLOCKS = 30;

function scratchFolder(): string {
  const directory = mkdtempSync(join(tmpdir(), "perigee-disk-tier-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/**
 * A small pool, host memory for all that one step pushes out, however slow the disk is, and a disk
 * that has room for all.
 */
function optionsFor(diskCacheDir: string, more: LoadOptions["kvCache"] = {}): LoadOptions {
  return {
    device: "cpu",
    dtype: "float32",
    engineThread: false,
    threads: 1,
    kvCache: {
      ...{ blockTokens: 4, poolBytes: POOL_BLOCKS * BLOCK_BYTES, hostCacheBytes: 32 * BLOCK_BYTES },
      ...{ diskCacheBytes: 400 * BLOCK_BYTES, diskCacheDir, onboard: "always" },
      ...more,
    },
  };
}

/** Other prompts, until nothing of what was asked before is left on the device. */
async function crowdOut(llm: LLM): Promise<void> {
  for (let place = 0; place < 3; place++) {
    const promptTokenIds = Array.from({ length: 100 }, (_, at) => 3 + ((at * 7 + place) % 300));
    await llm.generate({ promptTokenIds }, { ...one, cacheSalt: `crowd ${place}` });
    // Until what left for the disk is there, nothing else can follow it.
    await expect.poll(() => llm.stats().cache?.levels[2]?.held, { timeout: 20_000 }).toBe(0);
  }
}

async function cachedTokens(llm: LLM, cacheSalt?: string): Promise<number> {
  const salted = cacheSalt === undefined ? {} : { cacheSalt };
  const [result] = await llm.generate(long, { ...greedy, ...salted });
  expect(result?.completions[0]?.tokenIds).toEqual(cases[3]?.greedy);
  return result?.cachedTokens ?? Number.NaN;
}

test("salts part contents in all levels, and still do after a restart", async () => {
  const folder = scratchFolder();
  const firstLife = async () => {
    await using llm = await LLM.load(fixturePath("llama"), optionsFor(folder));
    expect(llm.info.bytesPerBlock).toBe(BLOCK_BYTES);
    expect(await cachedTokens(llm, "a")).toBe(0);
    await crowdOut(llm);
    expect(await cachedTokens(llm)).toBe(0);
    await crowdOut(llm);
    expect(await cachedTokens(llm, "b")).toBe(0);
    expect(await cachedTokens(llm, "a")).toBeGreaterThan(0);
    await crowdOut(llm);
  };
  await firstLife();
  await using llm = await LLM.load(fixturePath("llama"), optionsFor(folder));
  expect(await cachedTokens(llm, "c")).toBe(0);
  expect(await cachedTokens(llm, "a")).toBeGreaterThan(0);
  expect(llm.stats().cache?.levels[2]?.hitTokens).toBeGreaterThan(0);
});

test("closing waits for writes under way, and leaves whole files alone", async () => {
  const folder = scratchFolder();
  const warnings: string[] = [];
  const onWarning = (text: string) => warnings.push(text);
  for (let life = 0; life < 3; life++) {
    const llm = await LLM.load(fixturePath("llama"), { ...optionsFor(folder), onWarning });
    await llm.generate(long, { ...one, cacheSalt: `${life}` });
    await crowdOut(llm);
    // What this pushes out is being written when the model is closed.
    await llm.generate(long, { ...one, cacheSalt: `${life} again` });
    await llm[Symbol.asyncDispose]();
    const files = readdirSync(folder, { recursive: true }).map(String);
    expect(files.filter((name) => name.endsWith(".kv")).length).toBeGreaterThan(0);
    expect(files.filter((name) => name.endsWith(".tmp"))).toEqual([]);
  }
  expect(warnings.filter((text) => text.includes("disk"))).toEqual([]);
});

test("a load that is refused after the folder was opened gives it back", async () => {
  const folder = scratchFolder();
  const options = optionsFor(folder);
  const refused = LLM.load(fixturePath("llama"), {
    ...options,
    scheduler: { chunkedPrefill: false, stepTokensMax: 64, runningSequencesMax: 8 },
  });
  await expect(refused).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  const warnings: string[] = [];
  const onWarning = (text: string) => warnings.push(text);
  await using llm = await LLM.load(fixturePath("llama"), { ...options, onWarning });
  expect(warnings.filter((text) => text.includes("disk"))).toEqual([]);
  expect(llm.stats().cache?.levels).toHaveLength(3);
});

test("where the folder is another one's there is no disk level, and nothing is staged for one", async () => {
  const folder = scratchFolder();
  const warnings: string[] = [];
  const onWarning = (text: string) => warnings.push(text);
  const options = optionsFor(folder, { hostCacheBytes: 0 });
  await using first = await LLM.load(fixturePath("llama"), options);
  await using second = await LLM.load(fixturePath("llama"), { ...options, onWarning });
  expect(first.stats().cache?.levels).toHaveLength(3);
  expect(second.stats().cache?.levels).toHaveLength(1);
  expect(warnings.join()).toContain("disk cache");
  await second.generate(long, one);
});

test.for<[string, LoadOptions, string]>([
  ["swap without host memory", { scheduler: { preemption: "swap" } }, "hostCacheBytes"],
  ["a folder without room", { kvCache: { diskCacheDir: "unused" } }, "diskCacheBytes"],
  [
    "a disk level without a prefix cache",
    { kvCache: { diskCacheBytes: 2 ** 20, diskCacheDir: "unused", prefixCaching: false } },
    "prefixCaching",
  ],
])("%s is loaded with a warning that says what is missing", async ([, options, missing]) => {
  const warnings: string[] = [];
  const onWarning = (text: string) => warnings.push(text);
  const inline = { device: "cpu", engineThread: false } as const;
  await using llm = await LLM.load(fixturePath("llama"), { ...inline, ...options, onWarning });
  expect(warnings.join()).toContain(missing);
  expect(llm.stats().cache?.levels).toHaveLength(1);
});
