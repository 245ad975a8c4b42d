import type Anthropic from "@anthropic-ai/sdk";
import { describe, expect, test } from "vitest";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";
import { messagesClient } from "./messages-client.ts";

closeToyServers();

const input_schema = {
  type: "object" as const,
  properties: { city: { type: "string" } },
  required: ["city"],
};
const tools: Anthropic.Tool[] = [
  { name: "get_weather", description: "The weather of a city.", input_schema },
  { name: "get_time", input_schema: { type: "object" as const } },
];
const request = {
  ...{ model: "toy", max_tokens: 500, tools },
  messages: [{ role: "user" as const, content: "weather?" }],
};
const calls =
  'Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n' +
  '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>';

const wanted = [
  { type: "text", text: "Let me look." },
  { type: "tool_use", name: "get_weather", input: { city: "Oslo" } },
  { type: "tool_use", name: "get_time", input: {} },
];

describe("tools", () => {
  test.each([false, true])("calls are blocks of their own, as a stream: %s", async (stream) => {
    const client = messagesClient(await serveToy({ reply: () => calls }));
    const answer = stream
      ? await client.messages.stream(request).finalMessage()
      : await client.messages.create(request);
    expect(answer.content).toMatchObject(wanted);
    expect(answer.stop_reason).toBe("tool_use");
    const ids = answer.content.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
    expect(new Set(ids).size).toBe(2);
    expect(ids.every((id) => id.startsWith("toolu_"))).toBe(true);
  });

  test("a stream tells arguments piece by piece, in a block with its own beginning and end", async () => {
    const { server } = await serveToy({ reply: () => calls });
    const pieces: string[] = [];
    const order: string[] = [];
    const stream = messagesClient({ server }).messages.stream(request);
    stream.on("streamEvent", (event) => {
      if (event.type === "content_block_start") order.push(`start ${event.index}`);
      if (event.type === "content_block_stop") order.push(`stop ${event.index}`);
      const isPiece = event.type === "content_block_delta" && event.index === 1;
      if (isPiece && event.delta.type === "input_json_delta") pieces.push(event.delta.partial_json);
    });
    await stream.done();
    expect(order).toEqual(["start 0", "stop 0", "start 1", "stop 1", "start 2", "stop 2"]);
    expect(pieces.length).toBeGreaterThan(1);
    expect(JSON.parse(pieces.join(""))).toEqual({ city: "Oslo" });
  });

  test("one call at a time, where the client wants it so", async () => {
    const client = messagesClient(await serveToy({ reply: () => calls }));
    const answer = await client.messages.create({
      ...request,
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
    });
    expect(answer.content).toMatchObject(wanted.slice(0, 2));
    expect(answer.content).toHaveLength(2);
  });

  test("any forces a call, tool forces that one, none hides the tools", async () => {
    const toy = await serveToy();
    const client = messagesClient(toy);
    const any = await client.messages.create({ ...request, tool_choice: { type: "any" } });
    expect(any).toMatchObject({ content: [{ type: "tool_use" }], stop_reason: "tool_use" });
    const tool_choice = { type: "tool" as const, name: "get_weather" };
    const named = await client.messages.create({ ...request, tool_choice });
    expect(named.content).toMatchObject([
      { type: "tool_use", name: "get_weather", input: { city: "word" } },
    ]);
    await client.messages.create({ ...request, tool_choice: { type: "none" } });
    expect(toy.model.chats.map(({ options }) => options.tools?.length ?? 0)).toEqual([2, 2, 0]);
  });

  test("arguments that the limit of tokens cuts off are none, and the reason says why", async () => {
    const client = messagesClient(await serveToy({ reply: () => calls }));
    const answer = await client.messages.create({ ...request, max_tokens: 75 });
    expect(answer.stop_reason).toBe("max_tokens");
    expect(answer.content.at(-1)).toMatchObject({ type: "tool_use", input: {} });
  });

  test("a result leads to an answer: the round trip of an agent", async () => {
    const reply = (prompt: string) => (prompt.includes("tool: 4°") ? "It is 4°." : calls);
    const client = messagesClient(await serveToy({ reply }));
    const first = await client.messages.create(request);
    const results = first.content.flatMap((block) =>
      block.type === "tool_use"
        ? [{ type: "tool_result" as const, tool_use_id: block.id, content: "4°" }]
        : [],
    );
    const messages = [
      ...request.messages,
      { role: "assistant" as const, content: first.content },
      { role: "user" as const, content: results },
    ];
    const second = await client.messages.create({ ...request, messages });
    expect(second).toMatchObject({
      content: [{ type: "text", text: "It is 4°." }],
      stop_reason: "end_turn",
    });
  });

  test.each([
    ["user", { type: "tool_use", id: "a", name: "b", input: {} }, "tool_use"],
    ["assistant", { type: "tool_result", tool_use_id: "a" }, "tool_result"],
  ])("of the %s there is no %j", async (role, block, name) => {
    const { post } = await serveToy();
    const messages = [...request.messages, { role, content: [block] }];
    const answer = await post("/v1/messages", { ...request, messages });
    expect(answer.status).toBe(400);
    expect(await answer.text()).toContain(`must have no ${name}`);
  });
});
