import { describe, expect, test } from "vitest";
import { LIST_LIMITS } from "../../../src/server/openai/bounded.ts";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const message = { role: "user", content: "hi" };
const limits = LIST_LIMITS;
const list = (count: number, item: unknown = null) => new Array(count).fill(item);

/** Lists one longer than their limit. Items are wrong, too: counts are looked at first. */
const tooLong: [field: string, path: string, body: Record<string, unknown>, max: number][] = [
  ["messages", "/v1/chat/completions", { messages: list(limits.messages + 1) }, limits.messages],
  [
    ...(["tools", "/v1/chat/completions"] as const),
    ...([{ messages: [message], tools: list(limits.tools + 1) }, limits.tools] as const),
  ],
  [
    ...(["messages[0].tool_calls", "/v1/chat/completions"] as const),
    { messages: [{ ...message, tool_calls: list(limits.toolCalls + 1) }] },
    limits.toolCalls,
  ],
  ["prompt", "/v1/completions", { prompt: list(limits.prompts + 1, "a") }, limits.prompts],
  ["stop", "/v1/completions", { prompt: "a", stop: list(limits.stop + 1) }, limits.stop],
  ["input", "/v1/embeddings", { input: list(limits.prompts + 1, "a") }, limits.prompts],
  ...(["stop_token_ids", "bad_words"] as const).map(
    (field): [string, string, Record<string, unknown>, number] => [
      ...([field, "/v1/completions"] as const),
      ...([{ prompt: "a", [field]: list(limits[field] + 1) }, limits[field]] as const),
    ],
  ),
  [
    ...(["allowed_token_ids", "/v1/completions"] as const),
    { prompt: "a", allowed_token_ids: list(limits.allowed_token_ids + 1, 1) },
    limits.allowed_token_ids,
  ],
  [
    ...(["structured_outputs.choice", "/v1/completions"] as const),
    { prompt: "a", structured_outputs: { choice: list(limits.choice + 1) } },
    limits.choice,
  ],
  [
    ...(["logit_bias", "/v1/completions"] as const),
    {
      prompt: "a",
      logit_bias: Object.fromEntries(list(limits.logit_bias + 1).map((_, at) => [`x${at}`, 1])),
    },
    limits.logit_bias,
  ],
];

describe("a list longer than its limit is refused by name, before its items are looked at", () => {
  test.each(tooLong)("%s", async (field, path, body, max) => {
    const { post } = await serveToy();
    const answer = await post(path, body);
    expect(answer.status).toBe(400);
    const { error } = await json(answer);
    expect(error?.param).toBe(field);
    expect(error?.message).toContain(String(max));
  });
});

test("100,000 wrong items make one error, and no list of errors", async () => {
  const { post } = await serveToy({}, { requestValuesMax: 1_000_000 });
  const before = process.memoryUsage().heapUsed;
  for (const field of ["messages", "stop_token_ids", "prompt", "bad_words", "tools"]) {
    const answer = await post("/v1/chat/completions", { messages: [message], [field]: list(1e5) });
    expect(answer.status).toBe(400);
  }
  // One issue of each item would be some 150 MB.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(100e6);
});
