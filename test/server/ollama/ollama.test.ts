import { describe, expect, test } from "vitest";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";
import { ollamaClient } from "./ollama-client.ts";

closeToyServers();

const messages = [{ role: "user", content: "hello there" }];
const request = { model: "toy", messages };
const prompt = "user: hello there\nassistant:";

async function collected<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

describe("chats through the official client", () => {
  test("an answer has Ollama's shape, with counts and durations", async () => {
    const client = ollamaClient(await serveToy());
    const answer = await client.chat(request);
    expect(answer).toMatchObject({
      ...{ model: "toy", done: true, done_reason: "stop", load_duration: 0 },
      message: { role: "assistant", content: "HELLO THERE" },
      prompt_eval_count: prompt.length,
      eval_count: "HELLO THERE".length + 1,
    });
    expect(Number.isNaN(Date.parse(String(answer.created_at)))).toBe(false);
    const { total_duration: total, prompt_eval_duration: prefill, eval_duration: decode } = answer;
    expect(Number.isInteger(total)).toBe(true);
    expect(Math.abs(total - prefill - decode)).toBeLessThan(2);
  });

  test("a stream's last line has the statistics and no text", async () => {
    const client = ollamaClient(await serveToy());
    const lines = await collected(await client.chat({ ...request, stream: true }));
    const texts = lines.map(({ message }) => message.content);
    expect(texts.join("")).toBe("HELLO THERE");
    expect(lines.slice(0, -1).every(({ done }) => done === false)).toBe(true);
    const last = lines.at(-1);
    expect(last).toMatchObject({ done: true, done_reason: "stop", message: { content: "" } });
    expect(last?.eval_count).toBe("HELLO THERE".length + 1);
  });

  test("an answer is a stream unless it is asked for at once", async () => {
    const { post } = await serveToy();
    // The client adds `stream` to the request that it is given.
    const answer = await post("/api/chat", { model: "toy", messages });
    expect(answer.headers.get("content-type")).toBe("application/x-ndjson");
    const lines = (await answer.text()).trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(2);
    for (const line of lines) expect(JSON.parse(line)).toHaveProperty("done");
  });

  test("every option arrives under the engine's name", async () => {
    const toy = await serveToy();
    const options = {
      ...{ num_predict: 5, temperature: 0.5, top_p: 0.9, top_k: 5, min_p: 0.1, seed: 42 },
      ...{ stop: ["x"], repeat_penalty: 1.1, presence_penalty: 0.2, frequency_penalty: 0.3 },
      ...{ num_ctx: 2048, num_gpu: 99, num_thread: 4 },
    };
    const answer = await ollamaClient(toy).chat({ ...request, options, keep_alive: "5m" });
    expect(answer).toMatchObject({ done_reason: "length", message: { content: "HELLO" } });
    expect(toy.model.requests[0]).toMatchObject({
      ...{ maxTokens: 5, temperature: 0.5, topP: 0.9, topK: 5, minP: 0.1, seed: 42, stop: ["x"] },
      ...{ repetitionPenalty: 1.1, presencePenalty: 0.2, frequencyPenalty: 0.3 },
    });
  });

  test("a context that is longer than the served one is refused with the remedy", async () => {
    const client = ollamaClient(await serveToy());
    const failure = client.chat({ ...request, options: { num_ctx: 131_072 } });
    await expect(failure).rejects.toThrow(
      /at most 4096.*contextTokensMax \(--context-tokens-max 131072\)/,
    );
  });

  test.each([
    ["json", "{}"],
    [{ type: "object", properties: { age: { type: "integer" } }, required: ["age"] }, '{"age":7}'],
  ])("format %j forces the answer", async (format, text) => {
    const client = ollamaClient(await serveToy());
    const answer = await client.chat({ ...request, format });
    expect(answer.message.content).toBe(text);
  });

  test.each([false, true])(
    "tools are called with whole arguments, streamed: %s",
    async (stream) => {
      const calls =
        'Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n' +
        '</tool_call>\n<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>';
      const toy = await serveToy({ reply: () => calls });
      const parameters = { type: "object", properties: { city: { type: "string" } } };
      const tool = (name: string) => ({
        type: "function",
        function: { name, description: "A tool.", parameters },
      });
      const asked = { ...request, tools: [tool("get_weather"), tool("get_time")] };
      const client = ollamaClient(toy);
      const lines = stream
        ? await collected(await client.chat({ ...asked, stream: true }))
        : [await client.chat(asked)];
      const called = lines.flatMap(({ message }) => message.tool_calls ?? []);
      expect(called.map(({ function: { name, arguments: given } }) => [name, given])).toEqual([
        ["get_weather", { city: "Oslo" }],
        ["get_time", {}],
      ]);
      expect(lines.map(({ message }) => message.content).join("")).toBe("Let me look.");
    },
  );

  test("results of tools go to the template", async () => {
    const toy = await serveToy();
    const call = { function: { name: "get_weather", arguments: { city: "Oslo" } } };
    await ollamaClient(toy).chat({
      model: "toy",
      messages: [
        ...messages,
        { role: "assistant", content: "", thinking: "which?", tool_calls: [call] },
        { role: "tool", content: "4°", tool_name: "get_weather" },
      ],
    });
    expect(toy.model.chats[0]?.messages.slice(1)).toEqual([
      {
        ...{ role: "assistant", content: "", reasoning_content: "which?" },
        tool_calls: [{ type: "function", ...call }],
      },
      { role: "tool", content: "4°", name: "get_weather" },
    ]);
  });

  test("no messages: the model is loaded, as it always is", async () => {
    const client = ollamaClient(await serveToy());
    const answer = await client.chat({ model: "toy", messages: [] });
    expect(answer).toMatchObject({ done: true, done_reason: "load", message: { content: "" } });
  });

  test("NAME:latest is NAME; another name is not found, in Ollama's shape", async () => {
    const toy = await serveToy();
    const client = ollamaClient(toy);
    expect((await client.chat({ ...request, model: "toy:latest" })).model).toBe("toy:latest");
    const failure = await client.chat({ ...request, model: "gpt" }).catch((error) => error);
    expect(failure).toMatchObject({ status_code: 404, error: expect.stringContaining("gpt") });
    const answer = await toy.post("/api/chat", { ...request, model: "gpt" });
    expect(Object.keys(await json(answer))).toEqual(["error"]);
  });

  test("a failure within a stream is its last line", async () => {
    const client = ollamaClient(await serveToy({ failAfterTokens: 3 }));
    const lines = collected(await client.chat({ ...request, stream: true }));
    await expect(lines).rejects.toThrow(/the server failed/);
  });

  test("a client that goes away ends its request", async () => {
    const toy = await serveToy({ msPerToken: 5, reply: () => "a".repeat(2000) });
    const client = ollamaClient(toy);
    const stream = await client.chat({ ...request, stream: true });
    for await (const { done } of stream) {
      expect(done).toBe(false);
      break;
    }
    stream.abort();
    await expect.poll(() => toy.model.abortedCount).toBe(1);
  });

  test("silence is not broken by what a client would have to parse", async () => {
    const { post } = await serveToy({ msPerToken: 40 }, { streamKeepAliveMs: 10 });
    const options = { num_predict: 3 };
    const text = await (await post("/api/chat", { model: "toy", messages, options })).text();
    for (const line of text.trimEnd().split("\n")) expect(JSON.parse(line)).toHaveProperty("done");
  });
});

describe("prompts", () => {
  test("a prompt is a chat of one message, behind the system prompt", async () => {
    const toy = await serveToy();
    const asked = { model: "toy", prompt: "hello there", system: "be kind" };
    const answer = await ollamaClient(toy).generate(asked);
    expect(answer).toMatchObject({ response: "HELLO THERE", done: true, done_reason: "stop" });
    expect(toy.model.chats[0]?.messages).toEqual([
      { role: "system", content: "be kind" },
      { role: "user", content: "hello there" },
    ]);
  });

  test("raw: the prompt goes to the model as it is", async () => {
    const toy = await serveToy({ reply: (given) => `[${given}]` });
    const answer = await ollamaClient(toy).generate({ model: "toy", prompt: "a cache", raw: true });
    expect(answer).toMatchObject({ response: "[a cache]", prompt_eval_count: 7 });
    expect(toy.model.chats).toHaveLength(0);
  });

  test("a stream ends with the statistics", async () => {
    const client = ollamaClient(await serveToy());
    const asked = { model: "toy", prompt: "hello there", stream: true as const };
    const lines = await collected(await client.generate(asked));
    expect(lines.map(({ response }) => response).join("")).toBe("HELLO THERE");
    expect(lines.at(-1)).toMatchObject({ response: "", done: true });
    expect(lines.at(-1)?.prompt_eval_count).toBe(prompt.length);
  });

  test.each([
    ["suffix", "def"],
    ["template", "{{ .Prompt }}"],
    ["context", [1, 2]],
    ["images", ["aGk="]],
  ])("%s is refused by name", async (field, value) => {
    const { post } = await serveToy();
    const answer = await post("/api/generate", { model: "toy", prompt: "a", [field]: value });
    expect(answer.status).toBe(400);
    expect(await answer.text()).toContain(`Cannot use ${field}`);
  });
});

describe("vectors", () => {
  test("one text or many, each a vector", async () => {
    const client = ollamaClient(await serveToy());
    const answer = await client.embed({ model: "toy", input: ["hello", "there"] });
    expect(answer.embeddings.map(({ length }) => length)).toEqual([8, 8]);
    expect(answer.prompt_eval_count).toBe(10);
    const one = await client.embed({ model: "toy", input: "hello" });
    expect(one.embeddings).toEqual(answer.embeddings.slice(0, 1));
    const old = await client.embeddings({ model: "toy", prompt: "hello" });
    expect(old.embedding).toEqual(one.embeddings[0]);
  });

  test("a long text is cut, unless it shall be refused", async () => {
    const { post } = await serveToy();
    const input = "a".repeat(5000);
    const cut = await json(post("/api/embed", { model: "toy", input }));
    expect(cut.prompt_eval_count).toBe(4095);
    const refused = await post("/api/embed", { model: "toy", input, truncate: false });
    expect(refused.status).toBe(400);
    expect(await json(post("/api/embed", { model: "toy", input: [] }))).toMatchObject({
      embeddings: [],
    });
  });

  test("fewer dimensions are the first ones, normalized again", async () => {
    const { post } = await serveToy();
    const asked = { model: "toy", input: "hello", dimensions: 3 };
    const { embeddings } = await json(post("/api/embed", asked));
    const vector = embeddings as unknown as number[][];
    expect(vector[0]).toHaveLength(3);
    expect(Math.hypot(...(vector[0] ?? []))).toBeCloseTo(1);
  });
});

describe("what clients ask first", () => {
  test("the served models, by every name", async () => {
    const client = ollamaClient(await serveToy({}, { servedModelName: ["a", "b"] }));
    const { models } = await client.list();
    expect(models.map(({ name, model }) => [name, model])).toEqual([
      ["a", "a"],
      ["b", "b"],
    ]);
    expect(models[0]).toMatchObject({ details: { family: "toy", format: "safetensors" } });
    const running = await client.ps();
    expect(running.models.map(({ name }) => name)).toEqual(["a", "b"]);
  });

  test("what a model is and can do", async () => {
    const client = ollamaClient(await serveToy());
    const shown = await client.show({ model: "toy" });
    expect(shown.capabilities).toEqual(["completion", "tools"]);
    expect(shown.model_info).toMatchObject({ "toy.context_length": 4096 });
    await expect(client.show({ model: "gpt" })).rejects.toThrow(/gpt/);
  });

  test("a version that clients take", async () => {
    const { get } = await serveToy();
    const { version } = await json(get("/api/version"));
    expect(version).toMatch(/^0\.\d+\.\d+$/);
  });

  test("models are not managed here, and the answer says what to do instead", async () => {
    const client = ollamaClient(await serveToy());
    await expect(client.pull({ model: "toy" })).rejects.toThrow(/perigee serve MODEL/);
    await expect(client.delete({ model: "toy" })).rejects.toThrow(/perigee serve MODEL/);
  });
});
