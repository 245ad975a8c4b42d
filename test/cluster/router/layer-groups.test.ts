/** A model with three groups of layers: what the router promises is what the worker finds. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { LLM } from "#engine";
import { startServer } from "#server";
import { scratchFolder } from "../../checkpoint/scratch-folder.ts";
import { sized } from "../../support/full.ts";
import { Chances } from "../../support/kv-changes.ts";
import { clientsOf, closeRouters, routeTo } from "../../support/router-fleet.ts";
import { writeSmallTokenizer } from "../../support/small-tokenizer.ts";

closeRouters();

const BLOCK_TOKENS = 4;
const WINDOW = 16;
const REQUESTS = sized(30, 600);

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** `blocks` of all groups together. */
async function serveGemma(folder: string, blocks: number) {
  const llm = await LLM.load(folder, {
    ...{ device: "reference", engineThread: false, speculative: { kind: "off" } },
    kvCache: { blockTokens: BLOCK_TOKENS, poolBytes: blocks * 2048 },
  });
  closing.push(() => llm.close());
  expect(llm.info.groupWindows).toEqual([null, WINDOW, WINDOW]);
  expect(llm.info.blocks).toBe(blocks);
  const server = await startServer(llm, { port: 0, logLevel: "silent", shutdownTimeoutMs: 0 });
  closing.push(() => server.close());
  return { llm, url: server.url };
}

function gemmaFolder(): string {
  const folder = join(scratchFolder(), "gemma2");
  cpSync("test/fixtures/models/gemma2", folder, { recursive: true });
  writeSmallTokenizer(folder, 320);
  return folder;
}

const WARM_UP = Array.from({ length: 24 }, (_, at) => 300 - at);

interface Explained {
  readonly workers: readonly { readonly id: string; readonly cached_tokens: readonly number[] }[];
}

/** A router in front of workers, and what it says and does. */
async function route(
  folder: string,
  workers: readonly { readonly llm: LLM; readonly url: string }[],
) {
  const urls = workers.map(({ url }) => url);
  const router = await routeTo(urls, { model: [folder], showWorker: true });
  const { get, post } = clientsOf(router);
  const body = (prompt: readonly number[]) => ({ prompt, max_tokens: 2, ignore_eos: true });
  /** Tokens that each worker is said to have. */
  const promised = async (prompt: readonly number[]) => {
    const answer = (await (await post("/route/explain", body(prompt))).json()) as Explained;
    return new Map(answer.workers.map(({ id, cached_tokens: [, , any = 0] }) => [id, any]));
  };
  /** Tokens that the worker which got it found. */
  const complete = async (prompt: readonly number[]) => {
    const answer = await post("/v1/completions", body(prompt));
    const { usage } = (await answer.json()) as {
      usage: { prompt_tokens_details: { cached_tokens: number } };
    };
    return {
      worker: answer.headers.get("x-perigee-worker"),
      cached: wholeBlocks(usage.prompt_tokens_details.cached_tokens),
    };
  };
  /** The router has heard of all that the workers have. */
  const settle = async () => {
    const counts = workers.map(async ({ llm }) => {
      const { blocks } = await llm.kvEvents.snapshot();
      return blocks.filter(({ tokenIds }) => tokenIds.length === BLOCK_TOKENS).length;
    });
    const sum = (await Promise.all(counts)).reduce((total, count) => total + count, 0);
    const known = async () => {
      const text = await (await get("/metrics")).text();
      return Number(/^perigee_router_index_blocks (\d+)/m.exec(text)?.[1] ?? -1);
    };
    await expect.poll(known, { timeout: 10_000, interval: 10 }).toBe(sum);
  };
  // Until the router knows that it reads texts as the workers do, it compares texts.
  await complete(prompts(1)());
  await complete(WARM_UP);
  const known = async () => Math.max(...(await promised(WARM_UP)).values());
  await expect.poll(known, { timeout: 10_000 }).toBeGreaterThan(0);
  return { promised, complete, settle, get };
}

/** Parts of blocks are found, too, and announced as whole ones only. */
function wholeBlocks(tokens: number): number {
  return tokens - (tokens % BLOCK_TOKENS);
}

/** Prompts of a few families that share beginnings of all lengths. */
function prompts(seed: number): () => number[] {
  const chances = new Chances(seed);
  return () => {
    const family = chances.below(3);
    const shared = Array.from(
      { length: chances.below(80) },
      (_, at) => 10 + ((at * 7 + family) % 300),
    );
    const own = Array.from({ length: 1 + chances.below(20) }, () => 10 + chances.below(300));
    return [...shared, ...own];
  };
}

test("[CL118] what one worker's groups hold together is what is promised of it", async () => {
  const folder = gemmaFolder();
  const worker = await serveGemma(folder, 130);
  const { promised, complete, settle } = await route(folder, [worker]);
  const next = prompts(4);
  let hits = 0;
  for (let request = 0; request < REQUESTS; request++) {
    const prompt = next();
    await settle();
    const [promise = 0] = (await promised(prompt)).values();
    const { cached } = await complete(prompt);
    expect({ request, cached }).toEqual({ request, cached: promise });
    if (cached > 0) hits++;
  }
  expect(hits).toBeGreaterThan(REQUESTS / 6);
});

test("[CL118] through the router, each of two workers finds what was promised of it", async () => {
  const folder = gemmaFolder();
  const workers = [await serveGemma(folder, 130), await serveGemma(folder, 100)];
  const { promised, complete, settle, get } = await route(folder, workers);
  const next = prompts(9);
  const got = new Map<string | null, number>();
  let hits = 0;
  for (let request = 0; request < REQUESTS; request++) {
    const prompt = next();
    await settle();
    const promises = await promised(prompt);
    const { worker, cached } = await complete(prompt);
    expect({ request, cached }).toEqual({ request, cached: promises.get(worker ?? "") });
    got.set(worker, (got.get(worker) ?? 0) + 1);
    if (cached > 0) hits++;
  }
  expect(got.size).toBe(2);
  expect(hits).toBeGreaterThan(REQUESTS / 6);
  const metrics = await (await get("/metrics")).text();
  expect(metrics).toMatch(/^perigee_router_lost_tokens_total\{cause="stale"\} 0$/m);
});
