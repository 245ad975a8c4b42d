/** Drafts over HTTP: the same answers, counts in the usage and in the metrics, and refusals. */
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";
import { json } from "../../support/json.ts";

let llm: LLM;
let server: RunningServer;
let client: OpenAI;

beforeAll(async () => {
  const speculative = { kind: "lookup", adaptive: false } as const;
  llm = await LLM.load("models/pocket", { engineThread: false, dtype: "float32", speculative });
  server = await startServer(llm, { port: 0, logLevel: "silent" });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});

afterAll(async () => {
  await server?.close();
  await llm?.close();
});

const messages = [{ role: "user" as const, content: "What is a KV cache?" }];
const asked = { model: "pocket", temperature: 0, max_tokens: 60, messages };

function post(body: object): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...asked, ...body }),
  });
}

/** The whole answer of a request. */
async function answer(body: object) {
  const { choices, usage } = await json(post(body));
  return { text: String(choices?.[0]?.message?.content), usage: usage ?? {} };
}

describe("OpenAI's prediction", () => {
  test("makes the same answer, and its usage says what became of it", async () => {
    const plain = await answer({ speculative: false });
    expect(plain.usage).not.toHaveProperty("completion_tokens_details");
    const parts = [{ type: "text", text: plain.text }];
    for (const content of [plain.text, parts]) {
      const predicted = await answer({ prediction: { type: "content", content } });
      expect(predicted.text).toBe(plain.text);
      const { completion_tokens: tokens, completion_tokens_details: details } = predicted.usage;
      expect(tokens).toBe(plain.usage.completion_tokens);
      expect(details?.accepted_prediction_tokens).toBeGreaterThan(Number(tokens) / 2);
      expect(details?.rejected_prediction_tokens).toBeLessThan(Number(tokens));
    }
  });

  test("by the official client, streamed", async () => {
    const { text, usage } = await answer({ speculative: false });
    const stream = await client.chat.completions.create({
      ...asked,
      prediction: { type: "content", content: text },
      stream: true,
      stream_options: { include_usage: true },
    });
    let streamed = "";
    let last: OpenAI.CompletionUsage | null | undefined = null;
    for await (const chunk of stream) {
      streamed += chunk.choices[0]?.delta.content ?? "";
      last = chunk.usage;
    }
    expect(streamed).toBe(text);
    expect(last?.completion_tokens).toBe(usage.completion_tokens);
    expect(last?.completion_tokens_details?.accepted_prediction_tokens).toBeGreaterThan(0);
  });

  test("is counted by the metrics, under vLLM's names", async () => {
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    const sampleOf = (name: string) =>
      Number(new RegExp(`^vllm:${name}.* (\\d+)$`, "m").exec(metrics)?.[1]);
    const { drafts, draftedTokens, acceptedTokens, acceptedPerPosition } = llm.stats();
    expect(drafts).toBeGreaterThan(0);
    expect(sampleOf("spec_decode_num_drafts_total")).toBe(drafts);
    expect(sampleOf("spec_decode_num_draft_tokens_total")).toBe(draftedTokens);
    expect(sampleOf("spec_decode_num_accepted_tokens_total")).toBe(acceptedTokens);
    expect(metrics).toMatch(
      new RegExp(`accepted_tokens_per_pos_total\\{.*position="0".*\\} ${acceptedPerPosition[0]}`),
    );
  });
});

test.each([
  ["a kind that is not loaded", { speculative: { kind: "redrafter" } }, "speculative.kind"],
  ["an unknown kind", { speculative: { kind: "guess" } }, "speculative.kind"],
  ["a length beyond the server's", { speculative: { length: 60 } }, "speculative.length"],
  ["an unknown field", { speculative: { depth: 1 } }, "speculative"],
  [
    "a prediction of another type",
    { prediction: { type: "image", content: "a" } },
    "prediction.type",
  ],
  ["a prediction without content", { prediction: { type: "content" } }, "prediction.content"],
])("%s is refused by name", async (_, body, param) => {
  const response = await post(body);
  expect(response.status).toBe(400);
  const { error } = await json(response);
  expect(error?.param).toContain(param);
});
