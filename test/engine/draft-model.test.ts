/**
 * A model that drafts for itself drafts what it says: so its keys and values are right wherever all
 * its drafts are accepted.
 */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { LLM, type LoadOptions } from "#engine";
import { KvDrafter } from "../../src/engine/forward/kv-drafter.ts";
import { fixturePath, openRecordedModel } from "../contracts/recorded-model.ts";
import { cpuThreads } from "../support/full.ts";
import { writeRandomDraftModel } from "../support/random-drafter.ts";

const blockTokens = 4;
const lengthMax = 5;
const folder = mkdtempSync(join(tmpdir(), "perigee-draft-model-"));
afterAll(() => rmSync(folder, { recursive: true }));

type Options = Pick<
  LoadOptions,
  "kvCache" | "scheduler" | "overlapSteps" | "device" | "speculative"
>;
const greedy = { temperature: 0, maxTokens: 40, ignoreEos: true } as const;

const penalty = { repetitionPenalty: 1.3 };

function load(fixture: string, { kvCache, scheduler, ...options }: Options = {}): Promise<LLM> {
  const model = fixturePath(fixture);
  return LLM.load(model, {
    ...{ device: "cpu", dtype: "float32", threads: cpuThreads, engineThread: false },
    speculative: { kind: "draft-model", model, lengthMax, adaptive: false },
    kvCache: { blockTokens, ...kvCache },
    scheduler: { runningSequencesMax: 12, stepTokensMax: 256, ...scheduler },
    ...options,
  });
}

function promptsOf(fixture: string): { promptTokenIds: number[] }[] {
  return openRecordedModel(fixture).cases.map(({ prompt }) => ({
    promptTokenIds: [...prompt.slice(0, 40), ...prompt.slice(0, 30)],
  }));
}

/** Whether all that was drafted was accepted, since `before`, and how much it was. */
function expectAllAccepted(llm: LLM, before = 0): void {
  const { draftedTokens, acceptedTokens, heldBlocks } = llm.stats();
  expect(draftedTokens).toBeGreaterThan(before + 30);
  expect(acceptedTokens).toBe(draftedTokens);
  expect(heldBlocks).toBe(0);
}

const modes: Readonly<Record<string, Options>> = {
  "in one batch": {},
  "on the reference device": { device: "reference" },
  "in chunks of 5 tokens": { scheduler: { longPrefillTokensMax: 5 } },
  "with steps ahead": { overlapSteps: true },
  "with a window of 16 tokens": { kvCache: { attentionWindow: 16 } },
  "with a window of 20 tokens and 4 sinks": { kvCache: { attentionWindow: 20, attentionSinks: 4 } },
  "with int8 keys and values": { kvCache: { dtype: "int8" } },
};

describe("[SP13] the model itself, as its draft model", () => {
  test.for(Object.entries(modes))("%s", async ([, options]) => {
    await using llm = await load("llama", options);
    await llm.generate(promptsOf("llama"), greedy);
    expectAllAccepted(llm);
  });

  test.for([
    ["greedy beside sampled", { temperature: 0.9, topK: 40 }],
    ["with a nucleus", { temperature: 1.4, topK: 40, topP: 0.8 }],
    ["with a least share", { temperature: 1, topK: 60, minP: 0.01 }],
  ] as const)(
    "[SP22] sampled: all is accepted, since both draw with one noise: %s",
    async ([, how]) => {
      await using llm = await load("llama");
      const [first, ...others] = promptsOf("llama");
      const sampled = llm.generate(others, { ...greedy, ...how, seed: 5, n: 2 });
      const chosen = llm.generate(first ?? [], greedy);
      await Promise.all([sampled, chosen]);
      expectAllAccepted(llm);
    },
  );

  test("[SP29] the host waits for drafts only where it edits logits behind them", async () => {
    const { late: original } = KvDrafter.prototype;
    let late = 0;
    KvDrafter.prototype.late = function counted(seeds) {
      const found = original.call(this, seeds);
      if (found !== null) late++;
      return found;
    };
    onTestFinished(() => {
      KvDrafter.prototype.late = original;
    });
    await using llm = await load("llama");
    const [first, ...others] = promptsOf("llama");
    await llm.generate(others, greedy);
    expect(late).toBeGreaterThan(5);
    expectAllAccepted(llm);
    const before = late;
    const plain = await llm.generate(first ?? [], { ...greedy, speculative: false, ...penalty });
    const drafted = await llm.generate(first ?? [], { ...greedy, ...penalty });
    expect(late).toBe(before);
    expect(drafted[0]?.completions[0]?.tokenIds).toEqual(plain[0]?.completions[0]?.tokenIds);
  });

  test.for(["gemma2", "mistral-sliding-window", "gpt2", "opt", "qwen3-moe"])(
    "of another family: %s",
    async (fixture) => {
      const contextTokensMax = 120;
      await using llm = await load(fixture, { scheduler: { contextTokensMax } });
      await llm.generate(promptsOf(fixture), greedy);
      expectAllAccepted(llm);
    },
  );

  test("behind prefix hits, of whole blocks and of parts of them", async () => {
    await using llm = await load("llama");
    const prompt = { promptTokenIds: openRecordedModel("llama").cases[3]?.prompt ?? [] };
    await llm.generate(prompt, greedy);
    let cachedTokens = 0;
    for (const length of [12, 23, 37, 64, 80]) {
      const promptTokenIds = [...prompt.promptTokenIds.slice(0, length), 7, 8, 9];
      const before = llm.stats().draftedTokens;
      const [result] = await llm.generate({ promptTokenIds }, greedy);
      cachedTokens += result?.cachedTokens ?? 0;
      expectAllAccepted(llm, before);
    }
    expect(cachedTokens).toBeGreaterThan(180);
  });

  test("of samples that fork from one prompt", async () => {
    await using llm = await load("llama");
    await llm.generate(promptsOf("llama"), { ...greedy, temperature: 1, topK: 1, n: 3 });
    expectAllAccepted(llm);
  });

  test.for(["swap", "recompute"] as const)("after preemption by %s", async (preemption) => {
    const poolBytes = 60 * (await blockBytes());
    await using llm = await load("llama", {
      kvCache: { poolBytes, hostCacheBytes: 4 * poolBytes },
      scheduler: { preemption },
    });
    const prompts = promptsOf("llama");
    await llm.generate([...prompts, ...prompts], greedy);
    expect(llm.stats().preemptions).toBeGreaterThan(0);
    expectAllAccepted(llm);
  });

  test("from host memory, and from the disk after a restart", async () => {
    const bytesPerBlock = await blockBytes();
    const kvCache = {
      ...{ poolBytes: 40 * bytesPerBlock, hostCacheBytes: 40 * bytesPerBlock },
      ...{ diskCacheBytes: 2 ** 24, diskCacheDir: folder, onboard: "always" as const },
    };
    const prompts = promptsOf("llama");
    for (const direction of ["onboard", "diskRead"] as const) {
      await using llm = await load("llama", { kvCache });
      for (const prompt of [...prompts, ...prompts]) {
        await llm.generate(prompt, greedy);
        await writesDone(llm);
      }
      expect(llm.stats().cache?.moves[direction].blocks).toBeGreaterThan(10);
      expectAllAccepted(llm);
    }
  });
});

test("[SP15] a drafter finds on disk what it wrote itself, and nothing of another's", async () => {
  const diskCacheDir = mkdtempSync(join(tmpdir(), "perigee-draft-model-"));
  onTestFinished(() => rmSync(diskCacheDir, { recursive: true }));
  const prompts = [29, 30, 31, 32].map((factor) => ({
    promptTokenIds: Array.from({ length: 60 }, (_, at) => 3 + ((at * factor) % 300)),
  }));
  const [one, other] = [join(folder, "one"), join(folder, "other")];
  writeRandomDraftModel(one, { vocabulary: 320 }, 1);
  writeRandomDraftModel(other, { vocabulary: 320 }, 2);
  const cached: number[] = [];
  for (const model of [one, one, other, null, one]) {
    const kind = model === null ? "lookup" : "draft-model";
    const speculative = { kind, ...(model !== null && { model }), adaptive: false } as const;
    // A pool of fewer blocks than the prompts take.
    const bytes = 40 * (await blockBytes(speculative));
    const disk = { diskCacheBytes: 2 ** 24, diskCacheDir, onboard: "always" as const };
    const kvCache = { ...disk, poolBytes: bytes, hostCacheBytes: bytes };
    await using llm = await load("llama", { kvCache, speculative });
    for (const [place, prompt] of prompts.entries()) {
      const [result] = await llm.generate(prompt, greedy);
      if (place === 0) cached.push(result?.cachedTokens ?? Number.NaN);
      await writesDone(llm);
    }
  }
  expect(cached.map((tokens) => tokens > 40)).toEqual([false, true, false, false, true]);
  expect(readdirSync(diskCacheDir)).toHaveLength(3);
});

/** Of the model with its drafter. */
async function blockBytes(speculative?: LoadOptions["speculative"]): Promise<number> {
  await using llm = await load("llama", { ...(speculative && { speculative }) });
  return llm.info.bytesPerBlock;
}

/** Until what left for the disk is there, nothing else can follow it. */
async function writesDone(llm: LLM): Promise<void> {
  const writes = () => llm.stats().cache?.levels[2]?.held;
  await expect.poll(writes, { timeout: 20_000 }).toBe(0);
}
