import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";
import { UsageCounter } from "../../../src/server/openai/usage.ts";

// The whole way on the bundled model: what a cache saved is the engine's to say, not a route's.

let llm: LLM;
let server: RunningServer;
let client: OpenAI;

beforeAll(async () => {
  llm = await LLM.load("models/pocket", { engineThread: false });
  server = await startServer(llm, { port: 0, logLevel: "silent" });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});

afterAll(async () => {
  await server?.close();
  await llm?.[Symbol.asyncDispose]();
});

/** A figure of the engine's own beside OpenAI's. */
type OwnUsage = { readonly perigee?: { readonly kv_byte_seconds: number } };
const asked = { return_kv_byte_seconds: true };
const held = (usage: object | null | undefined): number =>
  (usage as OwnUsage | null | undefined)?.perigee?.kv_byte_seconds ?? -1;

type Usage = OpenAI.CompletionUsage | null | undefined;

/** Prompt tokens and how many of them came from the cache. */
const promptUsage = (usage: Usage): [number | undefined, number | undefined] => [
  usage?.prompt_tokens,
  usage?.prompt_tokens_details?.cached_tokens,
];

const BLOCK_TOKENS = 16;
/** All but the token that is always computed. */
const allButLast = (tokens: number) => tokens - 1;
const fullBlocks = (tokens: number) => tokens - (tokens % BLOCK_TOKENS);

/** In every way that sequences are made: what of a prompt is found when it comes again. */
const WAYS = [
  { name: "one sequence", more: {}, found: allButLast },
  { name: "three samples", more: { n: 3, temperature: 1, seed: 1 }, found: allButLast },
  // Beams leave full blocks behind, and no partly filled one.
  { name: "beams", more: { n: 2, use_beam_search: true, beam_width: 3 }, found: fullBlocks },
] as const;

describe.for(WAYS)("$name", ({ name, more, found }) => {
  const salted = { model: "pocket", max_tokens: 3, temperature: 0, ...more, cache_salt: name };
  const prompt =
    "A prompt that is longer than one block of sixteen tokens, so that it is shared for sure.";
  const messages = [{ role: "user" as const, content: prompt }];

  test("completions count a prompt's cached tokens once", async () => {
    const request = { ...salted, prompt };
    const first = await client.completions.create(request);
    const [tokens, cached] = promptUsage(first.usage);
    expect(tokens).toBeGreaterThan(16);
    expect(cached).toBe(0);
    const second = await client.completions.create(request);
    expect(promptUsage(second.usage)).toEqual([tokens, found(tokens ?? 0)]);
  });

  test("streams end with the same counts", async () => {
    const stream = await client.completions.create({
      ...salted,
      prompt,
      stream: true,
      stream_options: { include_usage: true },
    });
    let usage: Usage;
    for await (const chunk of stream) usage = chunk.usage ?? usage;
    const [tokens, cached] = promptUsage(usage);
    expect(cached).toBe(found(tokens ?? 0));
  });

  test("chats count them, whole and streamed", async () => {
    const whole = await client.chat.completions.create({ ...salted, messages });
    const [tokens] = promptUsage(whole.usage);
    const stream = await client.chat.completions.create({
      ...salted,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let usage: Usage;
    for await (const chunk of stream) usage = chunk.usage ?? usage;
    expect(promptUsage(usage)).toEqual([tokens, found(tokens ?? 0)]);
  });
});

test("several prompts of one request are added up", async () => {
  const request = { model: "pocket", max_tokens: 1, temperature: 0, cache_salt: "several" };
  const prompts = [
    "The first of two prompts that have nothing in common at their start.",
    "A second prompt.",
  ];
  const first = await client.completions.create({ ...request, prompt: prompts });
  const second = await client.completions.create({ ...request, prompt: prompts });
  const [tokens] = promptUsage(first.usage);
  expect(promptUsage(second.usage)).toEqual([tokens, (tokens ?? 0) - 2]);
});

test("with usage in every chunk the role comes before any token, and counts none", async () => {
  const messages = [{ role: "user" as const, content: "Hello" }];
  // vLLM's field is none of the client's types.
  const stream_options = { include_usage: true, continuous_usage_stats: true };
  const stream = await client.chat.completions.create({
    ...{ model: "pocket", messages, max_tokens: 4, temperature: 0 },
    ...{ stream: true, stream_options },
  });
  const counts: (number | undefined)[] = [];
  for await (const chunk of stream) {
    counts.push(chunk.usage?.completion_tokens);
    expect(chunk.usage?.prompt_tokens).toBeGreaterThan(0);
  }
  expect(counts[0]).toBe(0);
  expect(counts[1]).toBe(1);
  expect(counts.at(-1)).toBe(4);
});

test("[CL112] of prompts that another worker began, its finds count", () => {
  const usage = new UsageCounter();
  const prompt = (tokens: number, cachedTokens: number) => ({
    ...{ promptTokenIds: new Array<number>(tokens).fill(1), cachedTokens, promptLogprobs: null },
  });
  usage.resume(new Set([0]), 8);
  usage.add(0, prompt(10, 9), 3);
  usage.add(1, prompt(10, 2), 3);
  expect(usage.usage()).toMatchObject({
    ...{ prompt_tokens: 20, completion_tokens: 6, total_tokens: 26 },
    prompt_tokens_details: { cached_tokens: 8 + 2 },
  });
});

describe("what a request occupied", () => {
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    const line = text.split("\n").find((one) => one.startsWith(`perigee:${name}{`));
    return Number(line?.split(" ").at(-1));
  };

  test("[KV68] is in its usage, and in the metrics, however it ends", async () => {
    const before = await metric("request_kv_byte_seconds_sum");
    const ended = {
      model: "pocket",
      prompt: "one two three",
      temperature: 0,
      max_tokens: 24,
      ...asked,
    };
    const started = performance.now();
    const whole = await client.completions.create({ ...ended, temperature: 1, n: 2 });
    const seconds = (performance.now() - started) / 1000;
    const { bytesPerBlock } = llm.info;
    expect(held(whole.usage)).toBeGreaterThan(0);
    expect(held(whole.usage)).toBeLessThan(2 * 3 * bytesPerBlock * seconds);
    const stops = await client.completions.create({ ...ended, stop: ["e"] });
    expect(held(stops.usage)).toBeGreaterThan(0);
    const stream = await client.completions.create({
      ...{ ...ended, stream: true, stream_options: { include_usage: true } },
    });
    let last: object | null | undefined;
    for await (const chunk of stream) last = chunk.usage ?? last;
    expect(held(last)).toBeGreaterThan(0);
    const chat = await client.chat.completions.create({
      ...{ model: "pocket", messages: [{ role: "user", content: "hi" }], max_tokens: 8, ...asked },
    });
    expect(held(chat.usage)).toBeGreaterThan(0);
    const all = [whole.usage, stops.usage, last, chat.usage].reduce(
      (sum, one) => sum + held(one),
      0,
    );
    const counted = (await metric("request_kv_byte_seconds_sum")) - before;
    expect(Math.abs(counted - all)).toBeLessThan(4);
    // Posted ten times a second: tables of steps up to then.
    await expect.poll(() => metric("kv_byte_seconds_total")).toBeGreaterThan(0);
  });

  test("[KV68] is not in usage unasked: equal requests have equal answers", async () => {
    const body = { model: "pocket", prompt: "one two", max_tokens: 2, temperature: 0 };
    expect((await client.completions.create(body)).usage).not.toHaveProperty("perigee");
  });

  test("[KV68] beams count together", async () => {
    const body = { model: "pocket", prompt: "one two", max_tokens: 8, temperature: 0 };
    const beams = { ...asked, use_beam_search: true, n: 2 } as object;
    const answer = await client.completions.create({ ...body, ...beams });
    expect(held(answer.usage)).toBeGreaterThan(0);
  });
});
