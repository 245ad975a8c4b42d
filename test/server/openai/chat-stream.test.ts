import type OpenAI from "openai";
import { expect, test } from "vitest";
import { readEvents } from "../../support/events.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

type Chunk = OpenAI.Chat.Completions.ChatCompletionChunk;
const messages = [{ role: "user" as const, content: "hello there" }];
const streamed = { model: "toy", messages, stream: true as const };

async function collect(stream: AsyncIterable<Chunk>): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

test("a stream is a role, then content, then a finish reason", async () => {
  const { client } = await serveToy();
  const chunks = await collect(await client.chat.completions.create(streamed));
  const deltas = chunks.map((chunk) => chunk.choices[0]);
  expect(deltas[0]).toMatchObject({ delta: { role: "assistant", content: "" } });
  expect(deltas.at(-1)).toMatchObject({ delta: {}, finish_reason: "stop" });
  expect(deltas.slice(0, -1).every((choice) => choice?.finish_reason === null)).toBe(true);
  expect(deltas.map((choice) => choice?.delta.content ?? "").join("")).toBe("HELLO THERE");
  expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
  expect(chunks.every((chunk) => chunk.object === "chat.completion.chunk")).toBe(true);
});

test("usage comes in a last chunk without choices, and is null before", async () => {
  const { client } = await serveToy();
  const chunks = await collect(
    await client.chat.completions.create({ ...streamed, stream_options: { include_usage: true } }),
  );
  const last = chunks.at(-1);
  expect(last?.choices).toEqual([]);
  expect(last?.usage).toMatchObject({ prompt_tokens: 28, completion_tokens: 12, total_tokens: 40 });
  expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
});

test("continuous usage is in every chunk and grows", async () => {
  const { post } = await serveToy();
  const answer = await post("/v1/chat/completions", {
    ...streamed,
    stream_options: { include_usage: true, continuous_usage_stats: true },
  });
  const events = await readEvents(answer);
  const counts = events.slice(0, -1).map((event) => Number(event.usage?.completion_tokens));
  expect(counts).toEqual([...counts].sort((a, b) => a - b));
  expect(counts.at(-1)).toBe(12);
});

test("n streams interleave, each whole", async () => {
  const { client } = await serveToy();
  const chunks = await collect(await client.chat.completions.create({ ...streamed, n: 3 }));
  const texts = ["", "", ""];
  const roles: number[] = [];
  for (const { choices } of chunks) {
    for (const { index, delta } of choices) {
      texts[index] += delta.content ?? "";
      if (delta.role === "assistant") roles.push(index);
    }
  }
  expect(texts).toEqual(["HELLO THERE #0", "HELLO THERE #1", "HELLO THERE #2"]);
  expect(roles).toEqual([0, 1, 2]);
});

test("log-probabilities come with the tokens that they belong to", async () => {
  const { client } = await serveToy({ reply: () => "née" });
  const chunks = await collect(
    await client.chat.completions.create({ ...streamed, logprobs: true, top_logprobs: 1 }),
  );
  const bytes = chunks.flatMap((chunk) =>
    (chunk.choices[0]?.logprobs?.content ?? []).flatMap((token) => token.bytes ?? []),
  );
  const text = new TextDecoder().decode(Uint8Array.from(bytes));
  expect(text).toBe("née<end>");
});

test("the events are data lines, with [DONE] at the end", async () => {
  const { post } = await serveToy();
  const answer = await post("/v1/chat/completions", streamed);
  expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const text = await answer.text();
  expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  const blocks = text.split("\n\n").slice(0, -1);
  expect(blocks.every((block) => /^data: [^\n]+$/.test(block))).toBe(true);
});

test("a failure in the middle is an error event, then [DONE]", async () => {
  const { client, post } = await serveToy({ failAfterTokens: 3 });
  const text = await (await post("/v1/chat/completions", streamed)).text();
  const blocks = text.split("\n\n").slice(0, -1);
  expect(blocks.at(-1)).toBe("data: [DONE]");
  expect(JSON.parse(blocks.at(-2)?.slice("data: ".length) ?? "")).toMatchObject({
    error: { type: "server_error", code: "engine_step_failed" },
  });
  const stream = await client.chat.completions.create(streamed);
  await expect(collect(stream)).rejects.toThrow(/server failed/);
});

test("a failure before the first token is a plain HTTP error", async () => {
  const { post } = await serveToy({ runningMax: 0 });
  const answer = await post("/v1/chat/completions", streamed);
  expect(answer.status).toBe(429);
  expect(answer.headers.get("content-type")).toContain("application/json");
});
