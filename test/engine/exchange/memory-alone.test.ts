/** An engine that holds blocks for others and computes nothing. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { FlushReport } from "#engine";
import type { LLM, LoadOptions } from "../../../src/index.ts";
import {
  alone,
  expectNothingHeld,
  GREEDY,
  ids,
  load,
  MODEL,
  PlayedPeer,
  sourceOf,
} from "./peers.ts";

const BLOCK = 16;
const MEMORY = { kvTransfer: { memoryAlone: true } } as const;

/** Memory for that many blocks. */
async function memoryOf(blocks: number, own: LoadOptions = {}) {
  const bytes = await blockBytes();
  return await load({ ...MEMORY, kvCache: { hostCacheBytes: blocks * bytes }, ...own });
}

let known: number | null = null;

async function blockBytes(): Promise<number> {
  if (known === null) {
    const { llm } = await load();
    known = llm.info.bytesPerBlock;
    await llm.close();
  }
  return known;
}

function fill(memory: LLM, from: LLM, promptTokenIds: readonly number[], reusedTokens = 0) {
  const { host, port } = sourceOf(from);
  const peer = { host, port };
  return memory.fill({
    ...{ promptTokenIds, cacheSalt: null, reusedTokens, peer, deadlineMs: 5000 },
  });
}

async function compute(llm: LLM, prompt: readonly number[]) {
  const [result] = await llm.generate([{ promptTokenIds: [...prompt] }], GREEDY);
  return result;
}

/** Of host memory, when the last statistics were posted. */
function host(llm: LLM) {
  return llm.stats().cache?.levels.find(({ level }) => level === "host");
}

async function nothingHeldIn(memory: LLM): Promise<void> {
  await expect
    .poll(() => (memory.stats().cache?.levels ?? []).map(({ held }) => held), { timeout: 10_000 })
    .toSatisfy((held: number[]) => held.length > 0 && held.every((count) => count === 0));
}

test("[KV58] memory alone has the fingerprint of its fleet, holds blocks and computes nothing", async () => {
  const { llm: memory } = await memoryOf(64);
  const { llm: first } = await load();
  const { llm: second } = await load();
  const { fingerprint, bytesPerBlock, blockTokens, kind } = first.info;
  expect(memory.info).toMatchObject({ fingerprint, bytesPerBlock, blockTokens, kind });
  expect(memory.info.parameters).toBe(0);

  const prompt = ids(1, 5 * BLOCK + 3);
  await compute(first, prompt);
  expect(await fill(memory, first, prompt)).toEqual({
    storedTokens: 5 * BLOCK,
    storedBefore: 0,
  });
  const kvSource = sourceOf(memory, false);
  const [found] = await second.generate([{ promptTokenIds: prompt }], { ...GREEDY, kvSource });
  expect(found?.cachedTokens).toBe(5 * BLOCK);
  const [expected] = await alone([prompt]);
  expect(found?.completions).toEqual(expected);
  // Asked to compute the rest it gives what it has.
  const longer = [...prompt.slice(0, 5 * BLOCK), ...ids(2, 4 * BLOCK)];
  const computed = { ...GREEDY, kvSource: sourceOf(memory, true) };
  const { llm: third } = await load();
  const [rest] = await third.generate([{ promptTokenIds: longer }], computed);
  expect(rest?.cachedTokens).toBe(5 * BLOCK);
  expect(rest?.completions).toEqual((await alone([longer]))[0]);

  const refusal = /gives memory alone \(role kv\).*send the request to the router/;
  await expect(compute(memory, prompt)).rejects.toThrow(refusal);
  await expect(memory.embed([{ promptTokenIds: [5] }])).rejects.toThrow(refusal);
  await nothingHeldIn(memory);
  for (const llm of [first, second, third]) await expectNothingHeld(llm);
  await Promise.all([memory, first, second, third].map((llm) => llm.close()));
});

test("[KV58] options that leave it nothing to give are refused with what is to be done", async () => {
  await expect(load(MEMORY)).rejects.toThrow(/hostCacheBytes must be above 0/);
  const speculative = { kind: "draft-model", model: MODEL } as const;
  const kvCache = { hostCacheBytes: 2 ** 20 };
  await expect(load({ ...MEMORY, kvCache, speculative })).rejects.toThrow(/--speculative off/);
});

test("[KV59] what was reused replaces the oldest, the rest comes while memory is free", async () => {
  const { llm: memory } = await memoryOf(16);
  const { llm: giver } = await load();
  const prompts = [1, 2, 3, 4].map((seed) => ids(seed, 6 * BLOCK + 1));
  for (const prompt of prompts) await compute(giver, prompt);
  const [first = [], second = [], third = [], fourth = []] = prompts;
  for (const prompt of [first, second]) {
    expect((await fill(memory, giver, prompt)).storedTokens).toBe(6 * BLOCK);
  }
  // Four blocks are free.
  expect((await fill(memory, giver, third)).storedTokens).toBe(4 * BLOCK);
  expect((await fill(memory, giver, fourth)).storedTokens).toBe(0);
  expect((await fill(memory, giver, fourth, 5 * BLOCK)).storedTokens).toBe(5 * BLOCK);
  // The first prompt's tail made room; nothing is fetched twice.
  const again = await fill(memory, giver, second);
  expect(again).toEqual({ storedTokens: 6 * BLOCK, storedBefore: 6 * BLOCK });
  expect((await fill(memory, giver, first)).storedBefore).toBeLessThan(6 * BLOCK);
  // Told as any stored block is.
  const snapshot = await memory.kvEvents.snapshot();
  expect(snapshot.blocks.length).toBe(16);
  await nothingHeldIn(memory);
  await Promise.all([memory, giver].map((llm) => llm.close()));
});

test("[KV60] what no request waits for costs the giver no cached contents", async () => {
  const bytes = await blockBytes();
  const { llm: giver } = await load({
    kvCache: { poolBytes: 40 * bytes, hostCacheBytes: 40 * bytes },
  });
  const { llm: memory } = await memoryOf(64);
  // The first prompts move to host memory.
  const prompts = [1, 2, 3, 4, 5, 6].map((seed) => ids(seed, 10 * BLOCK + 1));
  for (const prompt of prompts) await compute(giver, prompt);
  const before = host(giver)?.cached ?? 0;
  expect(before).toBeGreaterThan(10);
  const last = prompts.at(-1) ?? [];
  expect((await fill(memory, giver, last)).storedTokens).toBe(10 * BLOCK);
  await expectNothingHeld(giver);
  expect(Math.abs((host(giver)?.cached ?? 0) - before)).toBeLessThanOrEqual(2);
  await Promise.all([memory, giver].map((llm) => llm.close()));
});

test("[KV61] a fill that fails stores and holds nothing, and says why", async () => {
  const { llm: memory } = await memoryOf(64);
  const { llm: other } = await load({ kvCache: { poolBytes: 2 ** 21, blockTokens: 8 } });
  const prompt = ids(1, 5 * BLOCK);
  await compute(other, prompt);
  await expect(fill(memory, other, prompt)).rejects.toThrow(/its fingerprint must be/);
  await other.close();
  // It is gone.
  await expect(fill(memory, other, prompt)).rejects.toMatchObject({ code: "WORKER_FAILED" });
  // It offers blocks and sends none of them.
  await using stalls = await PlayedPeer.open(async (ask, peer) => {
    const shape = { pieces: ask.blocks, pieceBytesMax: ask.bytesPerBlock, deadlineMs: 60_000 };
    const { id } = peer.port.offer(shape);
    const rest = { port: peer.port.dataPort, blocks: ask.blocks, storedBlocks: ask.blocks };
    return { offer: id, level: "host", ...rest };
  });
  const { host: name, port } = stalls.source;
  const asked = { promptTokenIds: prompt, cacheSalt: null, reusedTokens: 0 };
  const late = memory.fill({ ...asked, peer: { host: name, port }, deadlineMs: 300 });
  await expect(late).rejects.toMatchObject({ code: "WORKER_FAILED" });
  expect(stalls.asked[0]).toMatchObject({ compute: false, spare: true, prefix: null });
  await nothingHeldIn(memory);
  // At most eight at a time.
  const many = Array.from({ length: 9 }, (_, at) =>
    memory.fill({
      ...asked,
      ...{ promptTokenIds: ids(at, 3 * BLOCK), peer: { host: name, port }, deadlineMs: 500 },
    }),
  );
  const ends = await Promise.allSettled(many);
  const codes = ends.map((end) => (end.status === "rejected" ? end.reason.code : "stored"));
  expect(codes.filter((code) => code === "QUEUE_FULL")).toHaveLength(1);
  expect(codes.filter((code) => code === "WORKER_FAILED")).toHaveLength(8);
  await nothingHeldIn(memory);
  await memory.close();
});

test("[KV61] ids that are none, long prompts and engines that compute are refused", async () => {
  const { llm: memory } = await memoryOf(16);
  const { llm: giver } = await load();
  const tokens = memory.info.contextTokensMax + 1;
  await expect(fill(memory, giver, ids(1, tokens))).rejects.toMatchObject({
    code: "PROMPT_TOO_LONG",
  });
  await expect(fill(memory, giver, [5, 2 ** 30, 6])).rejects.toThrow(/in the vocabulary/);
  await expect(fill(giver, memory, ids(1, 40))).rejects.toThrow(/must have the role kv/);
  expect(await fill(memory, giver, [5])).toEqual({ storedTokens: 0, storedBefore: 0 });
  await Promise.all([memory, giver].map((llm) => llm.close()));
});

test("[KV75] memory alone that is closed as soon as blocks have come has them afterwards", async () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-memory-alone-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const bytes = await blockBytes();
  const kvCache = {
    ...{ hostCacheBytes: 64 * bytes, diskCacheBytes: 64 * bytes, diskCacheDir: folder },
  };
  const { llm: giver } = await load();
  const prompts = [1, 2, 3, 4].map((seed) => ids(seed, 6 * BLOCK + 1));
  const { llm: memory } = await load({ ...MEMORY, kvCache });
  for (const prompt of prompts) {
    await compute(giver, prompt);
    await fill(memory, giver, prompt, 6 * BLOCK);
  }
  const reports: FlushReport[] = [];
  memory.listen({ onFlushed: (report) => reports.push(report) });
  await memory.close();
  expect(reports).toEqual([expect.objectContaining({ leftForTime: 0, leftForRoom: 0, failed: 0 })]);
  const { llm: next } = await load({ ...MEMORY, kvCache });
  expect(next.stats().cache?.levels.find(({ level }) => level === "disk")?.cached).toBe(24);
  for (const prompt of prompts) {
    expect((await fill(next, giver, prompt, 6 * BLOCK)).storedBefore).toBe(6 * BLOCK);
  }
  await Promise.all([next, giver].map((llm) => llm.close()));
});

test("[KV62] what memory alone evicted to disk is given from there, also after a restart", async () => {
  const bytes = await blockBytes();
  const folder = mkdtempSync(join(tmpdir(), "perigee-memory-alone-"));
  const kvCache = {
    ...{ hostCacheBytes: 16 * bytes, diskCacheBytes: 64 * bytes, diskCacheDir: folder },
  };
  const { llm: giver } = await load();
  const prompts = [1, 2, 3, 4].map((seed) => ids(seed, 6 * BLOCK + 1));
  const expected = await alone(prompts);
  let { llm: memory } = await load({ ...MEMORY, kvCache });
  for (const prompt of prompts) {
    await compute(giver, prompt);
    // Written behind: what is not yet cannot be evicted to disk.
    await fill(memory, giver, prompt, 6 * BLOCK);
    await nothingHeldIn(memory);
  }
  const disk = () => memory.stats().cache?.levels.find(({ level }) => level === "disk");
  await expect.poll(() => disk()?.cached, { timeout: 10_000 }).toBe(24);
  for (const restarts of [false, true]) {
    if (restarts) {
      await memory.close();
      memory = (await load({ ...MEMORY, kvCache })).llm;
    }
    const { llm: taker } = await load();
    for (const [at, promptTokenIds] of prompts.entries()) {
      const given = { ...GREEDY, kvSource: sourceOf(memory, false) };
      const [found] = await taker.generate([{ promptTokenIds: [...promptTokenIds] }], given);
      expect(found?.cachedTokens).toBe(6 * BLOCK);
      expect(found?.completions).toEqual(expected[at]);
    }
    // It has all of it, wherever it is.
    for (const prompt of prompts) {
      const { storedBefore } = await fill(memory, giver, prompt, 6 * BLOCK);
      expect(storedBefore).toBe(6 * BLOCK);
    }
    await nothingHeldIn(memory);
    await taker.close();
  }
  // A longer prompt goes on behind what is on disk.
  const longer = [...(prompts[0] ?? []).slice(0, 6 * BLOCK), ...ids(9, 3 * BLOCK)];
  await compute(giver, longer);
  const filled = await fill(memory, giver, longer, 8 * BLOCK);
  expect(filled).toEqual({ storedTokens: 8 * BLOCK, storedBefore: 6 * BLOCK });
  await nothingHeldIn(memory);
  await Promise.all([memory, giver].map((llm) => llm.close()));
  rmSync(folder, { recursive: true });
});
