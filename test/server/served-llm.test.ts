import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { uniformAt } from "#base";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";
import { sized } from "../support/full.ts";
import { json } from "../support/json.ts";

// The whole way, on the bundled model: HTTP, templates, engine, device and back.

const messages = [{ role: "user" as const, content: "Hello, who are you?" }];
const greedy = { model: "pocket", temperature: 0, max_tokens: 12 };
/** Streams that clients abort at random moments. */
const ABORTED = sized(60, 200);
const abortSeed = { low: 200, high: 0 };

/** test/server/served-llm-threads.test.ts runs all this once more, with others than 0. */
const answeringThreads = Number(process.env.PERIGEE_TEST_ANSWERING_THREADS ?? 0);

let llm: LLM;
let server: RunningServer;
let client: OpenAI;

beforeAll(async () => {
  llm = await LLM.load("models/pocket", { engineThread: false });
  server = await startServer(llm, { port: 0, logLevel: "silent", answeringThreads });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});

afterAll(async () => {
  await server?.close();
  await llm?.[Symbol.asyncDispose]();
});

/** Waits until no request holds blocks. */
async function allBlocksFree(): Promise<void> {
  const inWork = async () => {
    const { requests_in_work: requests } = await json(fetch(`${server.url}/server_info`));
    return [Number(requests), llm.stats().heldBlocks];
  };
  await expect.poll(inWork, { timeout: 10_000, interval: 5 }).toEqual([0, 0]);
}

function post(path: string, body: unknown): Promise<Response> {
  return fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

test("greedy chat is the same at once and as a stream", async () => {
  const whole = await client.chat.completions.create({ ...greedy, messages });
  const stream = await client.chat.completions.create({ ...greedy, messages, stream: true });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  expect(text).toBe(whole.choices[0]?.message.content);
  expect(whole.usage?.completion_tokens).toBeLessThanOrEqual(12);
});

test("sampling with a seed gives the same n choices twice, and they differ", async () => {
  const request = { model: "pocket", prompt: "The", max_tokens: 8, n: 4, seed: 5, temperature: 1 };
  const [first, second] = await Promise.all([
    client.completions.create(request),
    client.completions.create(request),
  ]);
  const texts = first.choices.map(({ text }) => text);
  expect(second.choices.map(({ text }) => text)).toEqual(texts);
  expect(new Set(texts).size).toBeGreaterThan(1);
});

test("log-probabilities of generated tokens agree with scoring them as a prompt", async () => {
  const request = { ...greedy, prompt: "A server is", max_tokens: 6, logprobs: 1, echo: true };
  const generated = (await client.completions.create(request)).choices[0];
  const scored = (
    await client.completions.create({ ...request, prompt: generated?.text ?? "", max_tokens: 0 })
  ).choices[0];
  const tokens = scored?.logprobs?.tokens ?? [];
  expect(tokens.join("")).toBe(generated?.text);
  expect(generated?.logprobs?.tokens?.slice(0, tokens.length)).toEqual(tokens);
  scored?.logprobs?.token_logprobs?.forEach((value, i) => {
    if (i > 0) expect(value).toBeCloseTo(generated?.logprobs?.token_logprobs?.[i] ?? 0, 1);
  });
});

test("chat log-probabilities are sorted, negative, and spell the text", async () => {
  const answer = await client.chat.completions.create({
    ...greedy,
    messages,
    logprobs: true,
    top_logprobs: 3,
  });
  for (const { logprob, top_logprobs: top } of answer.choices[0]?.logprobs?.content ?? []) {
    expect(logprob).toBeLessThanOrEqual(0);
    expect(top).toHaveLength(3);
    expect(top.map((other) => other.logprob)).toEqual(
      top.map((other) => other.logprob).sort((a, b) => b - a),
    );
  }
});

test("a JSON schema is obeyed", async () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string", maxLength: 8 }, port: { enum: [80, 443] } },
    required: ["name", "port"],
    additionalProperties: false,
  };
  const answer = await client.chat.completions.create({
    ...greedy,
    max_tokens: 100,
    messages,
    response_format: { type: "json_schema", json_schema: { name: "service", schema } },
  });
  const value = JSON.parse(answer.choices[0]?.message.content ?? "");
  expect(value).toMatchObject({ name: expect.any(String) });
  expect([80, 443]).toContain(value.port);
});

test("a choice and a regular expression are obeyed", async () => {
  const choice = await post("/v1/completions", {
    prompt: "Yes or no?",
    guided_choice: ["yes", "no"],
  });
  expect(["yes", "no"]).toContain(String((await json(choice)).choices?.[0]?.text));
  const regex = await post("/v1/completions", {
    prompt: "Call",
    guided_regex: "[0-9]{3}-[0-9]{4}",
  });
  expect((await json(regex)).choices?.[0]?.text).toMatch(/^\d{3}-\d{4}$/);
});

test.for([
  [
    "a schema of an unknown type",
    {
      response_format: {
        type: "json_schema",
        json_schema: { name: "a", schema: { type: "strin" } },
      },
    },
  ],
  ["a schema that refers to nothing", { guided_json: { $ref: "#/$defs/missing" } }],
  ["a regular expression that does not end", { guided_regex: "[a-z" }],
  ["a grammar that is none", { guided_grammar: "root ::= (" }],
] as const)("%s is refused at once by an idle engine", async ([, structure]) => {
  await allBlocksFree();
  const start = performance.now();
  const answer = await post("/v1/chat/completions", { ...greedy, messages, ...structure });
  expect(performance.now() - start).toBeLessThan(2000);
  expect(answer.status).toBe(400);
  const { error } = await json(answer);
  expect(error).toMatchObject({ type: "invalid_request_error", code: "grammar_invalid" });
  expect(error?.message).toMatch(/^Cannot /);
});

test("a required tool is called with arguments of its schema", async () => {
  const parameters = {
    type: "object",
    properties: { unit: { enum: ["C", "F"] } },
    required: ["unit"],
    additionalProperties: false,
  };
  const tools = [{ type: "function" as const, function: { name: "weather", parameters } }];
  const answer = await client.chat.completions.create({
    ...greedy,
    max_tokens: 100,
    messages,
    tools,
    tool_choice: "required",
  });
  expect(answer.choices[0]?.finish_reason).toBe("tool_calls");
  const [call] = answer.choices[0]?.message.tool_calls ?? [];
  expect(call).toMatchObject({ type: "function", function: { name: "weather" } });
  const called = call?.type === "function" ? call.function.arguments : "";
  expect(["C", "F"]).toContain(JSON.parse(called).unit);
});

test("a called tool streams in pieces that join to its arguments", async () => {
  const parameters = { type: "object", properties: { n: { enum: [1, 2] } }, required: ["n"] };
  const stream = await client.chat.completions.create({
    ...greedy,
    max_tokens: 100,
    messages,
    tools: [{ type: "function", function: { name: "count", parameters } }],
    tool_choice: { type: "function", function: { name: "count" } },
    stream: true,
  });
  let name = "";
  let called = "";
  let reason: string | null = null;
  for await (const { choices } of stream) {
    const [call] = choices[0]?.delta.tool_calls ?? [];
    name += call?.function?.name ?? "";
    called += call?.function?.arguments ?? "";
    reason = choices[0]?.finish_reason ?? reason;
  }
  expect([name, reason]).toEqual(["count", "tool_calls"]);
  expect([1, 2]).toContain(JSON.parse(called).n);
});

test("an encoder's embeddings come by token ids, of length 1", async () => {
  await using encoder = await LLM.load("test/fixtures/models/bert-encoder", {
    engineThread: false,
    device: "reference",
  });
  await using served = await startServer(encoder, { port: 0, logLevel: "silent" });
  const embedder = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none", maxRetries: 0 });
  const answer = await embedder.embeddings.create({
    model: encoder.info.name,
    input: [
      [1, 2, 3],
      [4, 5],
    ],
  });
  expect(answer.data).toHaveLength(2);
  for (const { embedding } of answer.data) {
    expect(embedding).toHaveLength(encoder.info.hiddenSize);
    expect(Math.hypot(...embedding)).toBeCloseTo(1, 5);
  }
  expect(answer.usage.prompt_tokens).toBe(5);
});

test("a repeated prompt is found in the cache", async () => {
  const long = [{ role: "user" as const, content: "The same long question. ".repeat(12) }];
  await client.chat.completions.create({ ...greedy, messages: long, max_tokens: 1 });
  const { usage } = await client.chat.completions.create({
    ...greedy,
    messages: long,
    max_tokens: 1,
  });
  expect(usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThanOrEqual(16);
});

test("tokenize and detokenize are each other's inverse", async () => {
  const prompt = "Grüße, 世界! {}";
  const { tokens } = await json(post("/tokenize", { prompt, add_special_tokens: false }));
  expect(await json(post("/detokenize", { tokens }))).toEqual({ prompt });
});

test("a prompt beyond the context is a 400 with both numbers", async () => {
  const answer = await post("/v1/completions", { prompt: "word ".repeat(5000) });
  expect(answer.status).toBe(400);
  const { error } = await json(answer);
  expect(error?.code).toBe("context_length_exceeded");
  expect(error?.message).toMatch(/2047 tokens, current value is \d{4,}/);
});

test("wrong values are refused in the request's own words", async () => {
  const answer = await post("/v1/completions", { prompt: "a", top_p: 7 });
  expect(answer.status).toBe(400);
  const { error } = await json(answer);
  expect(error?.param).toBe("top_p");
  expect(error?.message).toContain("top_p");
});

test("a client that hangs up frees its blocks", async () => {
  const stream = await client.chat.completions.create({
    model: "pocket",
    messages,
    stream: true,
    max_tokens: 400,
  });
  for await (const _ of stream) break;
  await allBlocksFree();
});

test(`${ABORTED} streams aborted at random moments leave no block held`, async () => {
  const body = JSON.stringify({ messages, stream: true, max_tokens: 200, n: 2 });
  await Promise.all(
    Array.from({ length: ABORTED }, async (_, i) => {
      await sleep(uniformAt(abortSeed, i) * 1000);
      const controller = new AbortController();
      const answer = fetch(`${server.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
        signal: controller.signal,
      }).then((response) => response.text());
      answer.catch(() => undefined); // the abort itself, which is what this test makes
      await sleep(uniformAt(abortSeed, i, 1) * 300);
      controller.abort();
    }),
  );
  await allBlocksFree();
  expect(llm.stats()).toMatchObject({ running: 0, waiting: 0 });
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
});

test("metrics tell what was done", async () => {
  await allBlocksFree();
  const scrape = async () => {
    const lines = (await (await fetch(`${server.url}/metrics`)).text()).split("\n");
    return (name: string) => {
      const line = lines.find((candidate) => candidate.startsWith(`vllm:${name}{`));
      return Number(line?.split(" ").at(-1));
    };
  };
  const value = await scrape();
  expect(value("prompt_tokens_total")).toBeGreaterThan(0);
  expect(value("time_to_first_token_seconds_count")).toBeGreaterThan(0);
  expect(value("kv_cache_usage_perc")).toBe(0);
  // A step that was under way when a request was cancelled may end between the two readings.
  await expect
    .poll(async () => (await scrape())("generation_tokens_total") - llm.stats().generatedTokens)
    .toBe(0);
});
