import type OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { responseEvents } from "../../../support/response-events.ts";
import { closeToyServers, serveToy } from "../../../support/toy-server.ts";

closeToyServers();

/** A template of a model that thinks: its marks tell the server how to read outputs. */
const THINKS = "{{ '<think>' }}{{ content.split('</think>')[-1] }}";

type Failure = { readonly error: { readonly message: string; readonly code: string } };

const weather = {
  type: "function" as const,
  name: "weather",
  description: "The weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  strict: false,
};
const called = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>';

async function failure(answer: Response): Promise<Failure["error"] & { status: number }> {
  return { status: answer.status, ...((await answer.json()) as Failure).error };
}

describe("a response", () => {
  test("has the text, the usage and what the request said", async () => {
    const { client } = await serveToy();
    const response = await client.responses.create({
      ...{ model: "toy", input: "hello there", instructions: "Shout.", max_output_tokens: 50 },
      ...{ metadata: { run: "7" }, temperature: 0.5, top_p: 0.9 },
    });
    expect(response.output_text).toBe("HELLO THERE");
    expect(response).toMatchObject({
      ...{ object: "response", status: "completed", model: "toy", error: null },
      ...{ instructions: "Shout.", max_output_tokens: 50, metadata: { run: "7" }, store: true },
      ...{ temperature: 0.5, top_p: 0.9, previous_response_id: null, incomplete_details: null },
      usage: { output_tokens: 12, output_tokens_details: { reasoning_tokens: 0 } },
    });
    expect(response.output).toMatchObject([
      {
        ...{ type: "message", role: "assistant", status: "completed" },
        content: [{ type: "output_text", text: "HELLO THERE", annotations: [] }],
      },
    ]);
    expect(response.usage?.total_tokens).toBe((response.usage?.input_tokens ?? 0) + 12);
  });

  test("instructions stand before the conversation, as a system message", async () => {
    const { client, model } = await serveToy();
    await client.responses.create({
      ...{ model: "toy", instructions: "Be brief." },
      input: [
        { role: "developer", content: "In English." },
        { role: "user", content: [{ type: "input_text", text: "Hi" }] },
      ],
    });
    expect(model.chats.at(-1)?.messages).toEqual([
      { role: "system", content: "Be brief." },
      { role: "system", content: "In English." },
      { role: "user", content: "Hi" },
    ]);
  });

  test("that reaches its longest length is incomplete, and says why", async () => {
    const { client } = await serveToy();
    const response = await client.responses.create({
      ...{ model: "toy", input: "hello there", max_output_tokens: 5 },
    });
    expect(response.status).toBe("incomplete");
    expect(response.incomplete_details).toEqual({ reason: "max_output_tokens" });
    expect(response.output_text).toBe("HELLO");
    expect(response.output[0]).toMatchObject({ status: "incomplete" });
  });

  test("an empty answer is a message without text", async () => {
    const { client } = await serveToy({ reply: () => "" });
    const response = await client.responses.create({ model: "toy", input: "Hi" });
    expect(response.output_text).toBe("");
    expect(response.output).toHaveLength(1);
  });

  test("reasoning is an item of its own, and counted", async () => {
    const { client } = await serveToy({
      chatTemplate: THINKS,
      reply: () => "<think>\nA sum.\n</think>\n\nFour.",
    });
    const response = await client.responses.create({ model: "toy", input: "2 + 2?" });
    expect(response.output).toMatchObject([
      { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "A sum." }] },
      { type: "message", content: [{ text: "Four." }] },
    ]);
    const { output_tokens_details: details, output_tokens: all } = response.usage ?? {};
    expect(details?.reasoning_tokens).toBeGreaterThan("A sum.".length);
    expect(details?.reasoning_tokens).toBeLessThan(all ?? 0);
  });

  test("log-probabilities come where they are included", async () => {
    const { client } = await serveToy({ reply: () => "née" });
    const response = await client.responses.create({
      ...{ model: "toy", input: "Hi", top_logprobs: 2 },
      include: ["message.output_text.logprobs"],
    });
    const [message] = response.output as OpenAI.Responses.ResponseOutputMessage[];
    const [part] = (message?.content ?? []) as OpenAI.Responses.ResponseOutputText[];
    const bytes = (part?.logprobs ?? []).flatMap((token) => token.bytes);
    expect(new TextDecoder().decode(Uint8Array.from(bytes))).toContain("née");
    expect(part?.logprobs?.[0]?.top_logprobs).toHaveLength(2);
    const plain = await client.responses.create({ model: "toy", input: "Hi", top_logprobs: 2 });
    expect(plain.output[0]).toMatchObject({ content: [{ logprobs: [] }] });
  });

  test("its text follows the format that is asked for", async () => {
    const { client, model } = await serveToy();
    const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const response = await client.responses.create({
      ...{ model: "toy", input: "Hi" },
      text: { format: { type: "json_schema", name: "n", schema, strict: true } },
    });
    expect(JSON.parse(response.output_text)).toEqual({ n: expect.any(Number) });
    expect(response.text?.format).toMatchObject({ type: "json_schema", name: "n" });
    expect(model.requests.at(-1)?.structuredOutput).toEqual({ json: schema });
  });
});

describe("calls", () => {
  test("make a round trip: call, output, answer", async () => {
    const reply = (prompt: string) => (prompt.includes("tool: ") ? "It rains." : called);
    const { client, model } = await serveToy({ reply });
    const first = await client.responses.create({
      ...{ model: "toy", input: "Weather in Oslo?", tools: [weather], store: false },
    });
    const [call] = first.output as OpenAI.Responses.ResponseFunctionToolCall[];
    expect(call).toMatchObject({ type: "function_call", name: "weather", status: "completed" });
    expect(JSON.parse(call?.arguments ?? "")).toEqual({ city: "Oslo" });
    const second = await client.responses.create({
      ...{ model: "toy", tools: [weather], store: false },
      input: [
        { role: "user", content: "Weather in Oslo?" },
        ...(first.output as OpenAI.Responses.ResponseInputItem[]),
        { type: "function_call_output", call_id: call?.call_id ?? "", output: "rain" },
      ],
    });
    expect(second.output_text).toBe("It rains.");
    const messages = model.chats.at(-1)?.messages;
    expect(messages?.slice(1)).toMatchObject([
      { role: "assistant", tool_calls: [{ function: { arguments: { city: "Oslo" } } }] },
      { role: "tool", content: "rain", name: "weather", tool_call_id: call?.call_id },
    ]);
  });

  test("several come in parallel, or one alone", async () => {
    const { client } = await serveToy({ reply: () => `${called}\n${called}` });
    const request = { model: "toy", input: "Oslo?", tools: [weather] };
    const both = await client.responses.create(request);
    expect(both.output.map(({ type }) => type)).toEqual(["function_call", "function_call"]);
    const one = await client.responses.create({ ...request, parallel_tool_calls: false });
    expect(one.output).toHaveLength(1);
  });

  test("tool_choice forces them, and forbids them", async () => {
    const { client, model } = await serveToy();
    const request = { model: "toy", input: "Oslo?", tools: [weather] };
    const tool_choice = { type: "function" as const, name: "weather" };
    const forced = await client.responses.create({ ...request, tool_choice });
    expect(forced.output[0]).toMatchObject({ type: "function_call", name: "weather" });
    await client.responses.create({ ...request, tool_choice: "none" });
    expect(model.chats.at(-1)?.options.tools).toBeUndefined();
  });
});

describe("a stream", () => {
  test("tells of a message in order, and ends with the whole response", async () => {
    const { post } = await serveToy();
    const events = await responseEvents(
      await post("/v1/responses", { input: "hi", stream: true, metadata: { a: "b" } }),
    );
    expect(events.map(({ type }) => type)).toEqual([
      ...["response.created", "response.in_progress", "response.output_item.added"],
      ...["response.content_part.added", "response.output_text.delta"],
      ...["response.output_text.delta", "response.output_text.done"],
      ...["response.content_part.done", "response.output_item.done", "response.completed"],
    ]);
    expect(events[0]?.response).toMatchObject({ status: "in_progress", output: [], usage: null });
    expect(events[2]).toMatchObject({ output_index: 0, item: { status: "in_progress" } });
    expect(events[4]).toMatchObject({ delta: "H", content_index: 0, output_index: 0 });
    expect(events[6]).toMatchObject({ text: "HI" });
    const response = events.at(-1)?.response;
    expect(response).toMatchObject({ status: "completed", metadata: { a: "b" } });
    expect(response?.output).toMatchObject([{ content: [{ text: "HI" }] }]);
    expect(response?.id).toBe(events[0]?.response?.id);
    expect(events[4]?.item_id).toBe(response?.output[0]?.id);
  });

  test("tells of reasoning and calls", async () => {
    const { post } = await serveToy({
      chatTemplate: THINKS,
      reply: () => `<think>Look.</think>\n\n${called}`,
    });
    const events = await responseEvents(
      await post("/v1/responses", { input: "Oslo?", tools: [weather], stream: true }),
    );
    const types = events.map(({ type }) => type);
    const order = [
      ...["response.reasoning_text.delta", "response.reasoning_text.done"],
      ...["response.function_call_arguments.delta", "response.function_call_arguments.done"],
      "response.completed",
    ].map((type) => types.indexOf(type));
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(order).not.toContain(-1);
    const deltas = events.filter(({ type }) => type === "response.function_call_arguments.delta");
    expect(JSON.parse(deltas.map(({ delta }) => delta).join(""))).toEqual({ city: "Oslo" });
    const added = events.filter(({ type }) => type === "response.output_item.added");
    expect(added.map(({ output_index, item }) => [output_index, item?.type])).toEqual([
      [0, "reasoning"],
      [1, "function_call"],
    ]);
  });

  test("says the same as the whole answer", async () => {
    const { client } = await serveToy({
      chatTemplate: THINKS,
      reply: () => `<think>Look.</think>It ${called}`,
    });
    const request = { model: "toy", input: "Oslo?", tools: [weather] };
    const whole = await client.responses.create(request);
    const streamed = await client.responses.stream(request).finalResponse();
    const told = (response: OpenAI.Responses.Response) =>
      response.output.map((item) => {
        if (item.type === "function_call") return [item.name, item.arguments];
        return "content" in item
          ? (item.content ?? []).map((part) => "text" in part && part.text)
          : [];
      });
    expect(told(streamed)).toEqual(told(whole));
    expect(streamed.usage).toMatchObject({ output_tokens: whole.usage?.output_tokens });
  });

  test("that fails ends with the failed response", async () => {
    const { post, get } = await serveToy({ failAfterTokens: 2 });
    const events = await responseEvents(
      await post("/v1/responses", { input: "hello", stream: true }),
    );
    expect(events.at(-1)).toMatchObject({
      type: "response.failed",
      response: { status: "failed", error: { code: "server_error" } },
    });
    const id = events.at(-1)?.response?.id;
    expect((await get(`/v1/responses/${id}`)).status).toBe(404);
  });

  test("whose client leaves is aborted, and not kept", async () => {
    const { client, model } = await serveToy({ msPerToken: 5, reply: () => "x".repeat(2000) });
    const stream = await client.responses.create({ model: "toy", input: "Hi", stream: true });
    let id = "";
    for await (const event of stream) {
      if (event.type === "response.created") id = event.response.id;
      if (event.type === "response.output_text.delta") break;
    }
    await expect.poll(() => [model.abortedCount, model.runningCount]).toEqual([1, 0]);
    await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
  });
});

describe("a request is refused by name", () => {
  test.for([
    ["nothing", {}, "input"],
    ["an empty list", { input: [] }, "input"],
    ["an item of no type", { input: [{ type: "image" }] }, "input[0].type"],
    ["an image", { input: [{ role: "user", content: [{ type: "input_image" }] }] }, "input[0]"],
    ["background work", { input: "a", background: true }, "background"],
    ["a conversation of OpenAI's", { input: "a", conversation: "conv_1" }, "conversation"],
    ["a field of chats", { input: "a", messages: [] }, "messages"],
    ["too long a length", { input: "a", max_output_tokens: 5000 }, "max_output_tokens"],
    ["a schema that is none", { input: "a", text: { format: { type: "x" } } }, "text.format"],
    ["a tool of OpenAI's", { input: "a", tools: [{ type: "web_search" }] }, "tools[0]"],
    ["a choice without tools", { input: "a", tool_choice: "required" }, "tool_choice"],
    ["files without a store", { input: "a", tools: [search] }, "tools"],
    ["much metadata", { input: "a", metadata: many(17) }, "metadata"],
    ["a temperature", { input: "a", temperature: 9 }, "temperature"],
  ] as const)("with %s", async ([, body, name]) => {
    const { post } = await serveToy();
    const { status, message } = await failure(await post("/v1/responses", body));
    expect(status).toBe(400);
    expect(message).toContain(name);
    expect(message).not.toContain("max_completion_tokens");
  });
});

const search = { type: "file_search", vector_store_ids: ["vs_1"] };

function many(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, "v"]));
}
