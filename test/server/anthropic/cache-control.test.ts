import { describe, expect, test } from "vitest";
import { LIFETIMES } from "../../../src/server/anthropic/cache-control.ts";
import type { MessageUsage } from "../../../src/server/anthropic/message-usage.ts";
import { closeToyServers, serveToy, type ToyServer } from "../../support/toy-server.ts";

closeToyServers();

const ephemeral = { type: "ephemeral" };
const hour = { type: "ephemeral", ttl: "1h" };
const text = (words: string, cache_control?: object) => ({
  type: "text",
  text: words,
  cache_control,
});
const user = (...content: object[]) => ({ role: "user", content });
const system = [text("be kind and very patient", hour)];

async function ask({ post, model }: ToyServer, fields: object) {
  const body = { model: "toy", max_tokens: 4, messages: [user(text("hello"))], ...fields };
  const answer = await post("/v1/messages", body);
  const { usage } = (await answer.json()) as { usage: MessageUsage };
  return { usage, retention: model.requests.at(-1)?.retention };
}

const range = (start: number, end: number, ttl: "5m" | "1h") => ({ start, end, ...LIFETIMES[ttl] });

describe("cache_control", () => {
  test("without a mark nothing is retained, and what is computed is input", async () => {
    const { usage, retention } = await ask(await serveToy(), {});
    expect(retention).toBeUndefined();
    const prompt = "user: hello\nassistant:".length;
    expect(usage).toMatchObject({ input_tokens: prompt, cache_creation_input_tokens: 0 });
  });

  test("a mark at the end covers the whole prompt", async () => {
    const toy = await serveToy();
    const { usage, retention } = await ask(toy, { messages: [user(text("hello", ephemeral))] });
    const prompt = "user: hello\nassistant:".length;
    expect(retention).toMatchObject({ ranges: [range(0, prompt, "5m")] });
    expect(usage).toMatchObject({
      ...{ input_tokens: 0, cache_creation_input_tokens: prompt },
      cache_creation: { ephemeral_5m_input_tokens: prompt, ephemeral_1h_input_tokens: 0 },
    });
    expect(toy.model.chats).toHaveLength(1);
  });

  test("a mark in the system prompt covers it, and no message", async () => {
    const { usage, retention } = await ask(await serveToy(), { system });
    const covered = "system: be kind and very patient\nuser: ".length;
    expect(retention).toMatchObject({ ranges: [range(0, covered, "1h")] });
    expect(usage.cache_creation.ephemeral_1h_input_tokens).toBe(covered);
    expect(usage.input_tokens).toBe("hello\nassistant:".length);
  });

  test("an hour for the system prompt, five minutes for what follows", async () => {
    const messages = [user(text("hello")), { role: "assistant", content: "hi" }];
    const asked = { system, messages: [...messages, user(text("more", ephemeral), text("end"))] };
    const { usage, retention } = await ask(await serveToy(), asked);
    const covered = "system: be kind and very patient\nuser: ".length;
    const { ranges } = retention as { ranges: { start: number; end: number }[] };
    expect(ranges).toMatchObject([range(0, covered, "1h"), { start: covered, ...LIFETIMES["5m"] }]);
    const { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long } =
      usage.cache_creation;
    expect([long, long + short]).toEqual([covered, ranges[1]?.end]);
  });

  test("a second request reads what the first one made, and makes the rest", async () => {
    const toy = await serveToy();
    const first = await ask(toy, { system });
    const second = await ask(toy, { system });
    const { cache_read_input_tokens: read, cache_creation_input_tokens: made } = second.usage;
    expect(read).toBe(48);
    expect(made).toBe(0);
    expect(read + made + second.usage.input_tokens).toBe(
      first.usage.cache_creation_input_tokens + first.usage.input_tokens,
    );
  });

  test("a mark of the request's own covers all of it", async () => {
    const { retention } = await ask(await serveToy(), { cache_control: ephemeral });
    expect(retention).toMatchObject({
      ranges: [range(0, "user: hello\nassistant:".length, "5m")],
    });
  });

  test("a mark at a tool covers the prompt before the first message", async () => {
    const tool = { name: "f", input_schema: { type: "object" }, cache_control: ephemeral };
    const { retention } = await ask(await serveToy(), { system: "be kind", tools: [tool] });
    expect(retention).toMatchObject({
      ranges: [range(0, "system: be kind\nuser: ".length, "5m")],
    });
  });

  test.each([{ type: "permanent" }, { type: "ephemeral", ttl: "1d" }, { ttl: "5m" }, "ephemeral"])(
    "%j is refused",
    async (mark) => {
      const { post } = await serveToy();
      const body = { model: "toy", max_tokens: 4, messages: [user(text("a", mark as object))] };
      const answer = await post("/v1/messages", body);
      expect(answer.status).toBe(400);
      expect(await answer.text()).toContain("messages[0].content[0].cache_control");
    },
  );

  test("thousands of marks cost one more rendering for each lifetime", async () => {
    const toy = await serveToy();
    const marked = Array.from({ length: 2000 }, () => text("a", ephemeral));
    await ask(toy, { system: [text("s", hour)], messages: [user(...marked, text("b"))] });
    expect(toy.model.chats).toHaveLength(3);
  });
});
