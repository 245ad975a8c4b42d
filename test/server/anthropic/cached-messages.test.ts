/** `cache_control` on a real engine, with the bundled model and its template. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";
import { LIFETIMES } from "../../../src/server/anthropic/cache-control.ts";
import { cpuThreads } from "../../support/full.ts";
import { messagesClient } from "./messages-client.ts";

let llm: LLM;
let server: RunningServer;

beforeAll(async () => {
  llm = await LLM.load(undefined, { device: "cpu", threads: cpuThreads });
  server = await startServer(llm, { port: 0, logLevel: "silent", answeringThreads: 0 });
});

afterAll(async () => {
  await server.close();
  await llm.close();
});

const instructions = "You are Pocket. Answer in one short sentence. ".repeat(12);
const tool = {
  ...{ name: "read_file", description: "Reads a file." },
  input_schema: { type: "object" as const, properties: { path: { type: "string" } } },
};

/** Tokens of the blocks that were stored or changed since the last look, by their priority. */
async function storedTokens(): Promise<Map<number, number>> {
  const tokens = new Map<number, number>();
  for (const { event } of await llm.kvEvents.getLatestEvents(0)) {
    for (const { tokenIds, priority } of event.type === "stored" ? event.blocks : []) {
      tokens.set(priority, (tokens.get(priority) ?? 0) + tokenIds.length);
    }
  }
  return tokens;
}

test("blocks of marked tokens have the priorities of their lifetimes, others the default", async () => {
  const { usage } = await messagesClient({ server }).messages.create({
    ...{ model: "pocket", max_tokens: 4, temperature: 0, tools: [tool] },
    system: [{ type: "text", text: instructions, cache_control: { type: "ephemeral", ttl: "1h" } }],
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "A question. ".repeat(30), cache_control: { type: "ephemeral" } },
          { type: "text", text: "Another one. ".repeat(30) },
        ],
      },
    ],
  });
  const hour = usage.cache_creation?.ephemeral_1h_input_tokens ?? 0;
  const minutes = usage.cache_creation?.ephemeral_5m_input_tokens ?? 0;
  const { blockTokens } = llm.info;
  const stored = await storedTokens();
  const within = (wanted: number, found = 0) => {
    expect(Math.abs(found - wanted)).toBeLessThan(2 * blockTokens);
  };
  expect(Math.min(hour, minutes, usage.input_tokens)).toBeGreaterThan(2 * blockTokens);
  within(hour, stored.get(LIFETIMES["1h"].priority));
  within(minutes, stored.get(LIFETIMES["5m"].priority));
  within(usage.input_tokens, stored.get(35));
});

test("the same prompt as a chat and as messages has the same tokens", async () => {
  const messages = [{ role: "user" as const, content: "What is a cache?" }];
  const asked = { model: "pocket", max_tokens: 4, temperature: 0 };
  const client = messagesClient({ server });
  await client.messages.create({ ...asked, system: "Be kind.", messages });
  const answer = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      ...asked,
      messages: [{ role: "system", content: "Be kind." }, ...messages],
    }),
  });
  const { usage } = (await answer.json()) as {
    usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } };
  };
  // All but the last token, which is computed again for its logits.
  expect(usage.prompt_tokens_details.cached_tokens).toBe(usage.prompt_tokens - 1);
  const counting = { model: "pocket", system: "Be kind.", messages };
  const counted = await client.messages.countTokens(counting);
  expect(counted.input_tokens).toBe(usage.prompt_tokens);
});
