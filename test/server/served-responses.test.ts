import OpenAI from "openai";
import { zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";

// The unmodified client, and the bundled model.

const greedy = { model: "pocket", temperature: 0, max_output_tokens: 24 };

/** test/server/served-responses-threads.test.ts runs all this once more, with others than 0. */
const answeringThreads = Number(process.env.PERIGEE_TEST_ANSWERING_THREADS ?? 0);

let llm: LLM;
let server: RunningServer;
let client: OpenAI;

beforeAll(async () => {
  llm = await LLM.load("models/pocket", { engineThread: answeringThreads > 0 });
  server = await startServer(llm, { port: 0, logLevel: "silent", answeringThreads });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});

afterAll(async () => {
  await server?.close();
  await llm?.[Symbol.asyncDispose]();
});

test("a greedy response is the same at once, as a stream, and as a chat", async () => {
  const input = "What is a cache?";
  const whole = await client.responses.create({ ...greedy, input });
  const stream = client.responses.stream({ ...greedy, input });
  let text = "";
  stream.on("response.output_text.delta", ({ delta }) => {
    text += delta;
  });
  const streamed = await stream.finalResponse();
  const chat = await client.chat.completions.create({
    ...{ model: "pocket", temperature: 0, max_completion_tokens: 24 },
    messages: [{ role: "user", content: input }],
  });
  expect(whole.output_text).toBe(chat.choices[0]?.message.content);
  expect(streamed.output_text).toBe(whole.output_text);
  expect(text).toBe(whole.output_text);
  expect(whole.usage?.output_tokens).toBe(chat.usage?.completion_tokens);
});

test("each turn of a chain finds the turns before it in the cache", async () => {
  const instructions = "Answer briefly and to the point. ".repeat(6);
  let previous: string | undefined;
  const shares: number[] = [];
  for (let turn = 0; turn < 4; turn++) {
    const response: OpenAI.Responses.Response = await client.responses.create({
      ...{ ...greedy, instructions, input: `Question ${turn}: what does a cache keep?` },
      ...(previous !== undefined && { previous_response_id: previous }),
    });
    const { input_tokens: all = 0, input_tokens_details: details } = response.usage ?? {};
    shares.push((details?.cached_tokens ?? 0) / all);
    previous = response.id;
  }
  // A turn adds some 40 tokens to what is there, of which less than a block is computed twice.
  expect(shares.slice(1).map((share) => share > 0.4)).toEqual([true, true, true]);
  expect(shares[3]).toBeGreaterThan(shares[1] ?? 1);
});

test("a kept response is retrieved from whichever thread, and deleted", async () => {
  const made = await client.responses.create({ ...greedy, input: "Hello" });
  for (let again = 0; again < 4; again++) {
    // Another connection may come to another thread.
    const other = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
    expect((await other.responses.retrieve(made.id)).output_text).toBe(made.output_text);
    const next = { ...greedy, input: "And?", previous_response_id: made.id };
    expect((await other.responses.create(next)).previous_response_id).toBe(made.id);
  }
  await client.responses.delete(made.id);
  await expect(client.responses.retrieve(made.id)).rejects.toMatchObject({ status: 404 });
});

test("parse gives the object that a schema describes", async () => {
  const Service = z.object({ name: z.string().max(8), port: z.enum(["80", "443"]) });
  const response = await client.responses.parse({
    ...{ ...greedy, max_output_tokens: 100, input: "Name a service." },
    text: { format: zodTextFormat(Service, "service") },
  });
  expect(response.output_parsed?.name.length).toBeLessThanOrEqual(8);
  expect(["80", "443"]).toContain(response.output_parsed?.port);
});

test("a call's arguments are parsed, and its output goes back", async () => {
  const tool = zodResponsesFunction({
    ...{ name: "lookup", description: "Looks a word up" },
    parameters: z.object({ word: z.string().max(6) }),
  });
  const first = await client.responses.parse({
    ...{ ...greedy, max_output_tokens: 100, input: "Look it up." },
    ...{ tools: [tool], tool_choice: "required", parallel_tool_calls: false },
  });
  const [call] = first.output;
  if (call?.type !== "function_call") throw new Error(`No call but ${call?.type}`);
  expect(call.parsed_arguments).toEqual({ word: expect.any(String) });
  const second = await client.responses.create({
    ...{ ...greedy, tools: [tool], previous_response_id: first.id },
    input: [{ type: "function_call_output", call_id: call.call_id, output: "found" }],
  });
  expect(second.status).toMatch(/^(completed|incomplete)$/);
  expect(second.usage?.input_tokens_details.cached_tokens).toBeGreaterThan(0);
});
