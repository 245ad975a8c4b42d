import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { closeToyServers, serveToy } from "../../../support/toy-server.ts";

closeToyServers();

const toy = { model: "toy" };

describe("a kept response", () => {
  test("is continued: the model sees all that was said, and finds it in its cache", async () => {
    const { client, model } = await serveToy();
    let previous: string | undefined;
    const cached: number[] = [];
    for (const input of ["The first question", "The second one", "And a third"]) {
      const response = await client.responses.create({
        ...{ ...toy, input },
        ...(previous !== undefined && { previous_response_id: previous }),
      });
      expect(response.previous_response_id).toBe(previous ?? null);
      cached.push(response.usage?.input_tokens_details.cached_tokens ?? -1);
      previous = response.id;
    }
    expect(model.chats.at(-1)?.messages.map(({ content }) => content)).toEqual([
      ...["The first question", "THE FIRST QUESTION", "The second one", "THE SECOND ONE"],
      "And a third",
    ]);
    expect(cached[0]).toBe(0);
    expect(cached[1]).toBeGreaterThan(0);
    expect(cached[2]).toBeGreaterThan(cached[1] ?? 0);
  });

  test("takes its instructions from each request anew, and its salt along", async () => {
    const { client, model } = await serveToy();
    const salted = { cache_salt: "tenant" } as object;
    const first = await client.responses.create({
      ...toy,
      ...salted,
      input: "a",
      instructions: "I",
    });
    await client.responses.create({ ...toy, input: "b", previous_response_id: first.id });
    expect(model.chats.at(-1)?.messages.map(({ role }) => role)).toEqual([
      ...["user", "assistant", "user"],
    ]);
    expect(model.requests.at(-1)?.cacheSalt).toBe("tenant");
  });

  test("continues calls without a word of them", async () => {
    const call = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';
    const reply = (prompt: string) => (prompt.includes("tool: ") ? "Two." : call);
    const { client, model } = await serveToy({ reply });
    const tools = [{ type: "function" as const, name: "add", parameters: {}, strict: false }];
    const first = await client.responses.create({ ...toy, tools, input: "1 + 1?" });
    const [made] = first.output as OpenAI.Responses.ResponseFunctionToolCall[];
    const second = await client.responses.create({
      ...{ ...toy, tools, previous_response_id: first.id },
      input: [{ type: "function_call_output", call_id: made?.call_id ?? "", output: "2" }],
    });
    expect(second.output_text).toBe("Two.");
    const roles = model.chats.at(-1)?.messages.map(({ role }) => role);
    expect(roles).toEqual(["user", "assistant", "tool"]);
  });

  test("branches: two continue the same one", async () => {
    const { client, model } = await serveToy();
    const { id } = await client.responses.create({ ...toy, input: "root" });
    const next = { ...toy, previous_response_id: id };
    await client.responses.create({ ...next, input: "left" });
    await client.responses.create({ ...next, input: "right" });
    expect(model.chats.at(-1)?.messages.map(({ content }) => content)).toEqual([
      ...["root", "ROOT", "right"],
    ]);
  });

  test("is read again as it was, with the items of its request", async () => {
    const { client } = await serveToy();
    const made = await client.responses.create({
      ...{ ...toy, metadata: { a: "b" } },
      input: ["one", "two", "three"].map((content) => ({ role: "user" as const, content })),
    });
    expect(await client.responses.retrieve(made.id)).toEqual(made);
    const newest = await client.responses.inputItems.list(made.id, { limit: 2 });
    expect(newest.data.map((item) => "content" in item && item.content)).toEqual(["three", "two"]);
    const all: unknown[] = [];
    for await (const item of client.responses.inputItems.list(made.id, {
      limit: 2,
      order: "asc",
    })) {
      all.push("content" in item && item.content);
    }
    expect(all).toEqual(["one", "two", "three"]);
  });

  test("is forgotten, and what continues it goes on", async () => {
    const { client, model } = await serveToy();
    const first = await client.responses.create({ ...toy, input: "one" });
    const second = await client.responses.create({
      ...{ ...toy, input: "two", previous_response_id: first.id },
    });
    await client.responses.delete(first.id);
    await expect(client.responses.retrieve(first.id)).rejects.toMatchObject({ status: 404 });
    await expect(client.responses.delete(first.id)).rejects.toMatchObject({ status: 404 });
    await client.responses.create({ ...toy, input: "three", previous_response_id: second.id });
    expect(model.chats.at(-1)?.messages).toHaveLength(5);
  });

  test("cannot be cancelled: it is over", async () => {
    const { client } = await serveToy();
    const { id } = await client.responses.create({ ...toy, input: "one" });
    await expect(client.responses.cancel(id)).rejects.toMatchObject({ status: 400 });
    await expect(client.responses.cancel("resp_1")).rejects.toMatchObject({ status: 404 });
  });

  test("items of it are named instead of sent", async () => {
    const { client, model } = await serveToy();
    const first = await client.responses.create({ ...toy, input: "one" });
    const [message] = first.output;
    await client.responses.create({
      ...toy,
      input: [
        { role: "user", content: "one" },
        { type: "item_reference", id: message?.id ?? "" },
        { role: "user", content: "two" },
      ],
    });
    expect(model.chats.at(-1)?.messages[1]).toMatchObject({ role: "assistant", content: "ONE" });
    const missing = [{ type: "item_reference" as const, id: `${message?.id}9` }];
    await expect(client.responses.create({ ...toy, input: missing })).rejects.toMatchObject({
      status: 404,
    });
  });
});

describe("what is not kept", () => {
  test("with store: false", async () => {
    const { client } = await serveToy();
    const { id, ...response } = await client.responses.create({ ...toy, input: "a", store: false });
    expect(response).toMatchObject({ store: false });
    await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
    const next = { ...toy, input: "b", previous_response_id: id };
    await expect(client.responses.create(next)).rejects.toMatchObject({
      ...{ status: 404, code: "response_not_found" },
    });
  });

  test("where the server keeps none", async () => {
    const { client, model } = await serveToy({}, { responsesStoredMax: 0 });
    const { id, ...response } = await client.responses.create({ ...toy, input: "a" });
    expect(response).toMatchObject({ store: false });
    expect(model.requests.at(-1)?.retention).toBeUndefined();
    await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
  });
});

describe("the cache", () => {
  test("keeps a kept conversation before others, unless the request says otherwise", async () => {
    const { client, model } = await serveToy({}, { responsesWarmMs: 5000 });
    const asked = () => model.requests.at(-1)?.retention;
    await client.responses.create({ ...toy, input: "a" });
    expect(asked()).toMatchObject({
      ranges: [{ start: 0, end: null, priority: 50, durationMs: 5000 }],
      ...{ decodePriority: 50, decodeDurationMs: 5000 },
    });
    await client.responses.create({ ...toy, input: "a", store: false });
    expect(asked()).toBeUndefined();
    const own = { kv_cache_retention_config: { decode_retention_priority: 5 } } as object;
    await client.responses.create({ ...toy, input: "a", ...own });
    expect(asked()).toMatchObject({ ranges: [], decodePriority: 5 });
  });
});

describe("API keys", () => {
  test("another key finds nothing of it", async () => {
    const { client, server } = await serveToy({}, { apiKey: ["first", "second"] });
    const options = { baseURL: `${server.url}/v1`, apiKey: "second", maxRetries: 0 };
    const other = new OpenAI(options);
    const { id, output } = await client.responses.create({ ...toy, input: "secret" });
    const missing = { status: 404 };
    await expect(other.responses.retrieve(id)).rejects.toMatchObject(missing);
    await expect(other.responses.delete(id)).rejects.toMatchObject(missing);
    await expect(other.responses.inputItems.list(id)).rejects.toMatchObject(missing);
    await expect(other.responses.cancel(id)).rejects.toMatchObject(missing);
    const next = { ...toy, input: "b", previous_response_id: id };
    await expect(other.responses.create(next)).rejects.toMatchObject(missing);
    const input = [{ type: "item_reference" as const, id: output[0]?.id ?? "" }];
    await expect(other.responses.create({ ...toy, input })).rejects.toMatchObject(missing);
    // Nor where it makes up for whom it asks.
    const headers = { "x-perigee-owner": "first" };
    await expect(other.responses.retrieve(id, {}, { headers })).rejects.toMatchObject(missing);
    expect((await client.responses.retrieve(id)).id).toBe(id);
  });
});

describe("truncation", () => {
  test("auto drops the oldest turns that do not fit, and never the last", async () => {
    const { client, model } = await serveToy();
    const turn = (at: number) => ({ role: "user" as const, content: `${at} ${"x".repeat(1000)}` });
    const input = [0, 1, 2, 3, 4, 5].map(turn);
    const request = { ...toy, input, instructions: "Stay.", max_output_tokens: 100 };
    await expect(client.responses.create(request)).rejects.toMatchObject({
      ...{ status: 400, code: "context_length_exceeded" },
    });
    const response = await client.responses.create({ ...request, truncation: "auto" });
    expect(response.truncation).toBe("auto");
    const seen = model.chats.at(-1)?.messages.map(({ content }) => String(content).slice(0, 5));
    expect(seen).toEqual(["Stay.", "3 xxx", "4 xxx", "5 xxx"]);
    // All of it is kept.
    const items = await client.responses.inputItems.list(response.id, { limit: 100 });
    expect(items.data).toHaveLength(6);
  });
});
