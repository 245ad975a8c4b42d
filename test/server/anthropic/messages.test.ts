import Anthropic from "@anthropic-ai/sdk";
import { describe, expect, test } from "vitest";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";
import { messagesClient } from "./messages-client.ts";

closeToyServers();

const messages = [{ role: "user" as const, content: "hello there" }];
const request = { model: "toy", max_tokens: 100, messages };

describe("messages through the official client", () => {
  test("an answer has Anthropic's shape, with usage and a stop reason", async () => {
    const client = messagesClient(await serveToy());
    const answer = await client.messages.create(request);
    const prompt = "user: hello there\nassistant:".length;
    expect(answer).toMatchObject({
      type: "message",
      role: "assistant",
      model: "toy",
      content: [{ type: "text", text: "HELLO THERE" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: {
        input_tokens: prompt,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: "HELLO THERE".length + 1,
      },
    });
    expect(answer.id).toMatch(/^msg_/);
    expect(answer._request_id).toBeTruthy();
  });

  test("what was cached is read from the cache, and is no input", async () => {
    const client = messagesClient(await serveToy());
    await client.messages.create(request);
    const { usage } = await client.messages.create(request);
    const prompt = "user: hello there\nassistant:".length;
    expect(usage).toMatchObject({ cache_read_input_tokens: 16, input_tokens: prompt - 16 });
  });

  test("a stream has the same blocks, reasons and usage as the whole answer", async () => {
    const client = messagesClient(await serveToy());
    const stream = client.messages.stream(request);
    const types: string[] = [];
    stream.on("streamEvent", ({ type }) => types.push(type));
    const answer = await stream.finalMessage();
    expect(answer).toMatchObject({
      content: [{ type: "text", text: "HELLO THERE" }],
      stop_reason: "end_turn",
      usage: { output_tokens: "HELLO THERE".length + 1 },
    });
    expect(types.slice(0, 2)).toEqual(["message_start", "content_block_start"]);
    expect(types.slice(-3)).toEqual(["content_block_stop", "message_delta", "message_stop"]);
    expect(types.slice(2, -3).every((type) => type === "content_block_delta")).toBe(true);
  });

  test("at its limit of tokens an answer ends with max_tokens", async () => {
    const client = messagesClient(await serveToy());
    const answer = await client.messages.create({ ...request, max_tokens: 5 });
    expect(answer.content).toMatchObject([{ text: "HELLO" }]);
    expect(answer.stop_reason).toBe("max_tokens");
  });

  test("a limit beyond the context means as many as there is room for", async () => {
    const client = messagesClient(await serveToy());
    const answer = await client.messages.stream({ ...request, max_tokens: 64_000 }).finalMessage();
    expect(answer.stop_reason).toBe("end_turn");
  });

  test.each([false, true])("a stop sequence is named, as a stream: %s", async (stream) => {
    const client = messagesClient(await serveToy());
    const asked = { ...request, stop_sequences: ["#", " "] };
    const answer = stream
      ? await client.messages.stream(asked).finalMessage()
      : await client.messages.create(asked);
    expect(answer).toMatchObject({
      content: [{ type: "text", text: "HELLO" }],
      stop_reason: "stop_sequence",
      stop_sequence: " ",
    });
  });

  test("every sampling field arrives under the engine's name", async () => {
    const toy = await serveToy();
    await messagesClient(toy).messages.create({
      ...request,
      ...{ temperature: 0.5, top_p: 0.9, top_k: 5, stop_sequences: ["x"] },
      metadata: { user_id: "someone" },
    });
    expect(toy.model.requests[0]).toMatchObject({
      ...{ temperature: 0.5, topP: 0.9, topK: 5, stop: ["x"], maxTokens: 100 },
    });
  });

  test("words of the assistant at the end are continued", async () => {
    const toy = await serveToy();
    const begun = { role: "assistant" as const, content: "well," };
    await messagesClient(toy).messages.create({ ...request, messages: [...messages, begun] });
    expect(toy.model.chats[0]?.options).toMatchObject({
      addGenerationPrompt: false,
      continueFinalMessage: true,
    });
  });

  test("a JSON schema in output_config forces the answer", async () => {
    const toy = await serveToy();
    const schema = { type: "object", properties: { age: { type: "integer" } }, required: ["age"] };
    const answer = await messagesClient(toy).messages.create({
      ...request,
      output_config: { format: { type: "json_schema", schema } },
    });
    expect(answer.content).toMatchObject([{ type: "text", text: '{"age":7}' }]);
  });

  test("tokens are counted without an answer", async () => {
    const toy = await serveToy();
    const client = messagesClient(toy);
    const counted = await client.messages.countTokens({
      model: "toy",
      messages,
      system: "be kind",
    });
    expect(counted.input_tokens).toBe("system: be kind\nuser: hello there\nassistant:".length);
    expect(toy.model.requests).toHaveLength(0);
  });
});

describe("conversations", () => {
  test("system blocks, results of tools and thoughts become messages of a chat", async () => {
    const toy = await serveToy();
    await messagesClient(toy).messages.create({
      ...{ model: "toy", max_tokens: 5 },
      system: [
        { type: "text", text: "be kind" },
        { type: "text", text: "be short" },
      ],
      messages: [
        { role: "user", content: "weather?" },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "which city?", signature: "" },
            { type: "text", text: "Let me look." },
            { type: "tool_use", id: "toolu_1", name: "get_weather", input: { city: "Oslo" } },
          ],
        },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "toolu_1",
              content: [{ type: "text", text: "4°" }],
            },
            { type: "text", text: "and in words?" },
          ],
        },
      ],
    });
    expect(toy.model.chats[0]?.messages).toEqual([
      {
        role: "system",
        content: [
          { type: "text", text: "be kind" },
          { type: "text", text: "be short" },
        ],
      },
      { role: "user", content: "weather?" },
      {
        role: "assistant",
        content: "Let me look.",
        reasoning_content: "which city?",
        tool_calls: [
          {
            ...{ type: "function", id: "toolu_1" },
            function: { name: "get_weather", arguments: { city: "Oslo" } },
          },
        ],
      },
      { role: "tool", tool_call_id: "toolu_1", name: "get_weather", content: "4°" },
      { role: "user", content: "and in words?" },
    ]);
  });

  test.each([
    [undefined, false],
    [{ type: "disabled" as const }, false],
    [{ type: "enabled" as const, budget_tokens: 1024 }, true],
  ])("templates are told whether to think: %j", async (thinking, thinks) => {
    const toy = await serveToy();
    await messagesClient(toy).messages.create({ ...request, ...(thinking && { thinking }) });
    expect(toy.model.chats[0]?.options.templateVariables).toEqual({ enable_thinking: thinks });
  });
});

describe("failures", () => {
  test.each([
    ["another model's name", { model: "gpt" }, Anthropic.NotFoundError, "not_found_error"],
    ["a wrong type", { max_tokens: 0 }, Anthropic.BadRequestError, "invalid_request_error"],
    ["an unknown field", { "max-tokens": 1 }, Anthropic.BadRequestError, "invalid_request_error"],
  ])("%s has Anthropic's error class and shape", async (_name, wrong, kind, type) => {
    const client = messagesClient(await serveToy());
    const failure = await client.messages.create({ ...request, ...wrong }).catch((error) => error);
    expect(failure).toBeInstanceOf(kind);
    expect(failure.error).toMatchObject({ type: "error", error: { type } });
    expect(failure.requestID).toBeTruthy();
  });

  test("an image is refused with the place where it stands", async () => {
    const { post } = await serveToy();
    const image = { type: "image", source: { type: "url", url: "http://a/b.png" } };
    const body = { ...request, messages: [{ role: "user", content: [image] }] };
    const answer = await post("/v1/messages", body);
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      error: { message: expect.stringContaining("messages[0].content[0].type: must be text") },
    });
  });

  test("a tool that a server would run is refused with the remedy", async () => {
    const { post } = await serveToy();
    const tools = [{ type: "web_search_20250305", name: "web_search", max_uses: 5 }];
    const answer = await post("/v1/messages", { ...request, tools });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      error: { message: expect.stringMatching(/tools\[0\]\.type: .*input_schema, and run it/) },
    });
  });

  test("a full queue is a rate limit, with the time to wait", async () => {
    const { post } = await serveToy({ runningMax: 0 });
    const answer = await post("/v1/messages", request);
    expect(answer.status).toBe(429);
    expect(answer.headers.get("retry-after")).toBe("1");
    expect(await answer.json()).toMatchObject({ error: { type: "rate_limit_error" } });
  });

  test("a server that ends is overloaded for others, and finishes what it began", async () => {
    const toy = await serveToy({ msPerToken: 20 }, { shutdownTimeoutMs: 30_000 });
    const running = await toy.post("/v1/messages", { ...request, stream: true });
    const closing = toy.server.close();
    const answer = await toy.post("/v1/messages", request);
    expect(answer.status).toBe(529);
    expect(await answer.json()).toMatchObject({ error: { type: "overloaded_error" } });
    expect(await running.text()).toContain("event: message_stop");
    await closing;
  });

  test("a failure within a stream is its last event", async () => {
    const client = messagesClient(await serveToy({ failAfterTokens: 3 }));
    const failure = await client.messages
      .stream(request)
      .finalMessage()
      .catch((error) => error);
    expect(failure).toBeInstanceOf(Anthropic.APIError);
    expect(failure.error).toMatchObject({ type: "error", error: { type: "api_error" } });
    expect(String(failure.message)).not.toContain("secret detail");
  });

  test("without a key nothing is answered; x-api-key and a bearer token both open", async () => {
    const toy = await serveToy({}, { apiKey: ["sk-a"] });
    const refused = await toy.post("/v1/messages", request);
    expect(refused.status).toBe(401);
    expect(await refused.json()).toMatchObject({ error: { type: "authentication_error" } });
    expect(refused.headers.get("request-id")).toBeTruthy();
    const headers = [
      { "x-api-key": "sk-a" },
      { authorization: "Bearer sk-a" },
      { "x-api-key": "placeholder", authorization: "Bearer sk-a" },
      { "x-api-key": "sk-a", authorization: "Bearer placeholder" },
    ];
    for (const own of headers) {
      const answer = await toy.post("/v1/messages", request, {
        "anthropic-version": "2023-06-01",
        ...own,
      });
      expect(answer.status).toBe(200);
    }
  });

  test("a client that goes away ends its request", async () => {
    const toy = await serveToy({ msPerToken: 5, reply: () => "a".repeat(2000) });
    const stream = messagesClient(toy).messages.stream({ ...request, max_tokens: 2000 });
    await new Promise<void>((resolve) => stream.once("text", () => resolve()));
    stream.abort();
    await expect(stream.finalMessage()).rejects.toThrow();
    await expect.poll(() => toy.model.abortedCount).toBe(1);
    expect(toy.model.runningCount).toBe(0);
  });
});

describe("streams as they are written", () => {
  test("events are named by their types, a ping among them, and nothing follows the end", async () => {
    const { post } = await serveToy();
    const answer = await post("/v1/messages", { ...request, stream: true });
    expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const text = await answer.text();
    const blocks = text.trimEnd().split("\n\n");
    for (const block of blocks) {
      const [, name, data = "{}"] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      expect(JSON.parse(data).type).toBe(name);
    }
    expect(blocks.filter((block) => block.startsWith("event: ping"))).toHaveLength(1);
    expect(blocks.at(-1)).toMatch(/^event: message_stop/);
  });

  test("the first event tells the prompt's usage, before any token of the answer", async () => {
    const { post } = await serveToy();
    const text = await (await post("/v1/messages", { ...request, stream: true })).text();
    const first = JSON.parse(/^event: message_start\ndata: (.*)/.exec(text)?.[1] ?? "");
    expect(first.message).toMatchObject({
      ...{ content: [], stop_reason: null },
      usage: { input_tokens: 28, output_tokens: 0 },
    });
  });

  test("silence is broken by pings", async () => {
    const { post } = await serveToy({ msPerToken: 60 }, { streamKeepAliveMs: 15 });
    const asked = { ...request, max_tokens: 3, stream: true };
    const text = await (await post("/v1/messages", asked)).text();
    expect(text.match(/^event: ping$/gm)?.length).toBeGreaterThan(1);
    expect(text).not.toContain(": keep-alive");
  });
});
