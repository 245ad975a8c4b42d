/** What a closed model had cached is found by the next one, as far as time and disk allow. */
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type FlushReport, LLM, type LoadOptions } from "#engine";
import { fixturePath, openRecordedModel } from "../contracts/recorded-model.ts";

const { cases } = openRecordedModel("llama");
/** 90 tokens and what follows them: 113 are stored, in 28 full blocks. */
const long = { promptTokenIds: cases[3]?.prompt ?? [] };
const greedy = { temperature: 0, maxTokens: 24, minTokens: 24 };
const one = { temperature: 0, maxTokens: 1 };
const BLOCK_TOKENS = 4;
/** What a block of four tokens takes in float32. */
const BLOCK_BYTES = 3072;

type LifeOptions = NonNullable<Parameters<typeof LLM.load>[1]>;
type KvCache = NonNullable<LoadOptions["kvCache"]>;

function scratchFolder(): string {
  const directory = mkdtempSync(join(tmpdir(), "perigee-disk-flush-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A pool that is larger than all that is asked: without a flush nothing would reach the disk. */
function optionsFor(diskCacheDir: string, more: KvCache = {}): LoadOptions {
  return {
    ...{ device: "reference", dtype: "float32", engineThread: false },
    kvCache: {
      ...{ blockTokens: BLOCK_TOKENS, poolBytes: 128 * BLOCK_BYTES, onboard: "always" },
      ...{ hostCacheBytes: 40 * BLOCK_BYTES, diskCacheBytes: 400 * BLOCK_BYTES, diskCacheDir },
      ...more,
    },
  };
}

/** One life of a model, closed in good order. */
async function life<Result>(options: LifeOptions, live: (llm: LLM) => Promise<Result>) {
  const llm = await LLM.load(fixturePath("llama"), options);
  let flush: FlushReport | null = null;
  llm.listen({
    onFlushed: (report) => {
      flush = report;
    },
  });
  const result = await live(llm);
  await llm.close();
  return { result, flush: flush as FlushReport | null };
}

async function ask(llm: LLM, cacheSalt?: string): Promise<number> {
  const [result] = await llm.generate(long, { ...greedy, ...(cacheSalt && { cacheSalt }) });
  expect(result?.completions[0]?.tokenIds).toEqual(cases[3]?.greedy);
  return result?.cachedTokens ?? Number.NaN;
}

/** Full blocks of the prompt, all of which are found when it is asked again. */
const fullTokens = Math.floor((long.promptTokenIds.length - 1) / BLOCK_TOKENS) * BLOCK_TOKENS;

test.for<[string, LoadOptions]>([
  ["reference", {}],
  ["cpu", { device: "cpu", threads: 1 }],
  ["cpu with int8 blocks", { device: "cpu", threads: 1, dtype: "bfloat16" }],
  ["reference on a thread", { engineThread: true }],
])(
  "[KV75] after a restart a prompt is found that never left the device: %s",
  async ([name, own]) => {
    const folder = scratchFolder();
    const kvCache: KvCache = name.includes("int8") ? { dtype: "int8" } : {};
    const options = (more: KvCache = {}) => ({
      ...optionsFor(folder, { ...kvCache, ...more }),
      ...own,
    });
    const prompt = async (llm: LLM) => (await llm.generate(long, greedy))[0];
    const first = await life(options(), prompt);
    expect(first.result?.cachedTokens).toBe(0);
    const blocks = Math.floor((long.promptTokenIds.length + 23) / BLOCK_TOKENS);
    expect(first.flush).toMatchObject({ blocks, leftForTime: 0, leftForRoom: 0, failed: 0 });
    const second = await life(options(), prompt);
    expect(second.result?.cachedTokens).toBe(fullTokens);
    expect(second.result?.completions).toEqual(first.result?.completions);
    // What was read came from disk, so there is hardly anything to write.
    expect(second.flush?.blocks).toBe(0);
  },
);

test("[KV75] with shutdownFlushMs 0, and without a disk level, nothing is written", async () => {
  const folder = scratchFolder();
  const off = optionsFor(folder, { shutdownFlushMs: 0 });
  expect((await life(off, (llm) => ask(llm))).flush).toBeNull();
  expect(await life(off, (llm) => ask(llm))).toEqual({ result: 0, flush: null });
  const noDisk = optionsFor(folder, { diskCacheBytes: 0, diskCacheDir: null });
  expect((await life(noDisk, (llm) => ask(llm))).flush).toBeNull();
});

test("[KV75] salts stay apart in what was flushed", async () => {
  const folder = scratchFolder();
  await life(optionsFor(folder), (llm) => ask(llm, "a"));
  const { result } = await life(optionsFor(folder), async (llm) => {
    return [await ask(llm), await ask(llm, "b"), await ask(llm, "a")];
  });
  expect(result).toEqual([0, 0, fullTokens]);
});

test("[KV77] where the disk is small, what was used last is what is found", async () => {
  const folder = scratchFolder();
  // Room for one of both.
  const options = optionsFor(folder, { diskCacheBytes: 30 * BLOCK_BYTES });
  const { flush } = await life(options, async (llm) => {
    await ask(llm, "older");
    await ask(llm, "newer");
  });
  expect(flush?.blocks).toBe(30);
  expect(flush?.leftForRoom).toBe(26);
  const { result } = await life(options, async (llm) => {
    return [await ask(llm, "newer"), await ask(llm, "older")];
  });
  expect(result).toEqual([fullTokens, expect.any(Number)]);
  expect(result[1]).toBeLessThanOrEqual(2 * BLOCK_TOKENS);
});

test("[KV78] a flush whose time is over leaves a folder that is whole, and says what is missing", async () => {
  const folder = scratchFolder();
  const many = async (llm: LLM) => {
    for (const salt of ["a", "b", "c", "d"]) await ask(llm, salt);
  };
  const { flush } = await life(optionsFor(folder, { shutdownFlushMs: 1 }), many);
  const { blocks = 0, leftForTime = 0 } = flush ?? {};
  expect(blocks + leftForTime).toBe(4 * 28);
  expect(leftForTime).toBeGreaterThan(0);
  const files = readdirSync(folder, { recursive: true }).map(String);
  expect(files.filter((name) => name.endsWith(".kv"))).toHaveLength(blocks);
  expect(files.filter((name) => name.endsWith(".tmp"))).toEqual([]);
  const warnings: string[] = [];
  const onWarning = (text: string) => warnings.push(text);
  const next = await life({ ...optionsFor(folder), onWarning }, (llm) => ask(llm, "d"));
  // Eight blocks at a time, each behind its prefix.
  expect(next.result).toBe(Math.min(fullTokens, blocks * BLOCK_TOKENS));
  expect(warnings.filter((text) => /disk/i.test(text))).toEqual([]);
});

test("[KV78] what a flush that is killed leaves is read, as far as it came", async () => {
  const folder = scratchFolder();
  const copy = join(scratchFolder(), "copy");
  const blocksThere = () => {
    return readdirSync(folder, { recursive: true }).filter((name) => String(name).endsWith(".kv"));
  };
  const llm = await LLM.load(fixturePath("llama"), optionsFor(folder));
  for (const salt of ["a", "b", "c"]) await ask(llm, salt);
  const closing = llm.close();
  while (blocksThere().length < 3) await new Promise((resolve) => setImmediate(resolve));
  // As the folder is at this moment, but for the lock of this process.
  cpSync(folder, copy, { recursive: true, filter: (path) => !path.endsWith("lock") });
  await closing;
  const { result } = await life(optionsFor(copy), (llm) => ask(llm, "c"));
  expect(result).toBeGreaterThan(0);
  expect(result % BLOCK_TOKENS).toBe(0);
});

test("[KV79] a request that is cut off leaves what it had computed", async () => {
  const folder = scratchFolder();
  const { flush } = await life(optionsFor(folder), async (llm) => {
    const stream = llm.stream(long, { ...greedy, maxTokens: 200, ignoreEos: true });
    for await (const _ of stream) break;
    void llm.generate(long, { ...one, cacheSalt: "running" }).catch(() => {});
  });
  expect(flush?.blocks).toBeGreaterThanOrEqual(22);
  const { result } = await life(optionsFor(folder), (llm) => ask(llm));
  expect(result).toBe(fullTokens);
});
