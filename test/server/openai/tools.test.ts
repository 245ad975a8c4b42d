import type OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const messages = [{ role: "user" as const, content: "weather?" }];
const parameters = {
  type: "object",
  properties: { city: { type: "string" }, days: { $ref: "#/$defs/days" } },
  required: ["city"],
  $defs: { days: { type: "integer" } },
};
const tools = [
  { type: "function" as const, function: { name: "get_weather", parameters } },
  { type: "function" as const, function: { name: "get_time" } },
];
const request = { model: "toy", messages, tools };

const hermes =
  'Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n' +
  '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>';
const llama = '{"name": "get_weather", "parameters": {"city": "Oslo"}}';

type Chunk = OpenAI.Chat.Completions.ChatCompletionChunk;

interface Call {
  id: string;
  name: string;
  arguments: string;
}

async function collectStream(stream: AsyncIterable<Chunk>) {
  const calls: Call[] = [];
  let content = "";
  let reason: string | null = null;
  for await (const chunk of stream) {
    const [choice] = chunk.choices;
    content += choice?.delta.content ?? "";
    reason = choice?.finish_reason ?? reason;
    for (const delta of choice?.delta.tool_calls ?? []) {
      if (delta.id !== undefined) {
        calls[delta.index] = { id: delta.id, name: delta.function?.name ?? "", arguments: "" };
      }
      const call = calls[delta.index];
      if (call !== undefined) call.arguments += delta.function?.arguments ?? "";
    }
  }
  return { calls, content, reason };
}

describe("tools that the model may call", () => {
  test("Hermes calls become tool_calls, text before them stays content", async () => {
    const { client } = await serveToy({ reply: () => hermes });
    const answer = await client.chat.completions.create(request);
    const [choice] = answer.choices;
    expect(choice?.finish_reason).toBe("tool_calls");
    expect(choice?.message.content).toBe("Let me look.");
    expect(choice?.message.tool_calls).toMatchObject([
      { type: "function", function: { name: "get_weather", arguments: '{"city": "Oslo"}' } },
      { type: "function", function: { name: "get_time", arguments: "{}" } },
    ]);
    const ids = choice?.message.tool_calls?.map(({ id }) => id) ?? [];
    expect(new Set(ids).size).toBe(2);
    expect(ids.every((id) => /^call_[0-9a-f]{24}$/.test(id))).toBe(true);
  });

  test("a stream carries the same calls in pieces", async () => {
    const { client } = await serveToy({ reply: () => hermes });
    const stream = await client.chat.completions.create({ ...request, stream: true });
    const { calls, content, reason } = await collectStream(stream);
    expect(content).toBe("Let me look.");
    expect(reason).toBe("tool_calls");
    expect(calls.map((call) => [call.name, call.arguments])).toEqual([
      ["get_weather", '{"city": "Oslo"}'],
      ["get_time", "{}"],
    ]);
  });

  test("Llama 3's bare object is a call, and content is null", async () => {
    const { client } = await serveToy({ reply: () => llama });
    const answer = await client.chat.completions.create(request);
    expect(answer.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: null,
        tool_calls: [{ function: { name: "get_weather", arguments: '{"city": "Oslo"}' } }],
      },
    });
  });

  test("JSON that names no tool stays content", async () => {
    const text = '{"name": "someone", "parameters": {}}';
    const { client } = await serveToy({ reply: () => text });
    const answer = await client.chat.completions.create(request);
    expect(answer.choices[0]?.message.content).toBe(text);
    expect(answer.choices[0]?.finish_reason).toBe("stop");
  });

  test("parallel_tool_calls false keeps the first call only", async () => {
    const { client } = await serveToy({ reply: () => hermes });
    const asked = { ...request, parallel_tool_calls: false };
    const whole = await client.chat.completions.create(asked);
    expect(whole.choices[0]?.message.tool_calls).toHaveLength(1);
    const stream = await client.chat.completions.create({ ...asked, stream: true });
    expect((await collectStream(stream)).calls).toHaveLength(1);
  });

  test("tool_choice none shows no tools and parses nothing", async () => {
    const { client, model } = await serveToy({ reply: () => hermes });
    const answer = await client.chat.completions.create({ ...request, tool_choice: "none" });
    expect(answer.choices[0]?.message.content).toBe(hermes);
    expect(model.chats[0]?.options.tools).toBeUndefined();
  });

  test.for([
    ["none", hermes, 0],
    ["hermes", llama, 0],
    ["llama3_json", llama, 1],
    ["llama3_json", hermes, 0],
  ] as const)("the option %s decides what is read", async ([toolCallParser, reply, count]) => {
    const { client } = await serveToy({ reply: () => reply }, { toolCallParser });
    const answer = await client.chat.completions.create(request);
    expect(answer.choices[0]?.message.tool_calls ?? []).toHaveLength(count);
  });
});

describe("tools that the model must call", () => {
  test.for([
    ["hermes", '<tool_call>\n{"name": "get_weather", "arguments": ', "}\n</tool_call>", "\n"],
    ["llama3_json", '{"name": "get_weather", "parameters": ', "}", "; "],
  ] as const)("a named tool is the only call, written as %s", async (wanted) => {
    const [toolCallParser, begin, end, separator] = wanted;
    const { client, model } = await serveToy({}, { toolCallParser });
    const named = {
      ...request,
      tool_choice: { type: "function" as const, function: { name: "get_weather" } },
    };
    const answer = await client.chat.completions.create(named);
    const content = { type: "json_schema", json_schema: parameters };
    expect(model.requests[0]?.structuredOutput?.structuralTag).toEqual({
      type: "structural_tag",
      format: {
        type: "tags_with_separator",
        tags: [{ type: "tag", begin, content, end }],
        separator,
        at_least_one: true,
        stop_after_first: true,
      },
    });
    expect(answer.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: null,
        tool_calls: [
          { function: { name: "get_weather", arguments: '{"city":"word","days":null}' } },
        ],
      },
    });
    const stream = await client.chat.completions.create({ ...named, stream: true });
    const { calls, content: text } = await collectStream(stream);
    expect(text).toBe("");
    expect(calls).toMatchObject([{ name: "get_weather" }]);
    expect(JSON.parse(calls[0]?.arguments ?? "")).toEqual({ city: "word", days: null });
  });

  test("required lets the model choose among the tools, and call several", async () => {
    const { client, model } = await serveToy();
    const answer = await client.chat.completions.create({ ...request, tool_choice: "required" });
    expect(answer.choices[0]?.message.tool_calls).toMatchObject([
      { function: { name: "get_weather", arguments: '{"city":"word","days":null}' } },
    ]);
    expect(answer.choices[0]?.message.content).toBeNull();
    expect(model.requests[0]?.structuredOutput?.structuralTag).toMatchObject({
      format: { tags: [{}, {}], at_least_one: true, stop_after_first: false },
    });
  });

  test("required streams calls without any content", async () => {
    const { client } = await serveToy();
    const stream = await client.chat.completions.create({
      ...request,
      tool_choice: "required",
      stream: true,
    });
    const { calls, content, reason } = await collectStream(stream);
    expect(content).toBe("");
    expect(reason).toBe("tool_calls");
    expect(calls).toMatchObject([{ name: "get_weather" }]);
  });

  test("a name that is no tool is a 400", async () => {
    const { client } = await serveToy();
    await expect(
      client.chat.completions.create({
        ...request,
        tool_choice: { type: "function", function: { name: "fly" } },
      }),
    ).rejects.toMatchObject({ status: 400, param: "tool_choice" });
  });
});
