import { embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { type ChatMessage, LLM } from "#engine";
import {
  createPerigee,
  type PerigeeModel,
  type PerigeeProvider,
} from "../../packages/ai-sdk/src/index.ts";
import { chatEvents } from "../../src/engine/caller/chat-rounds.ts";
import { ToyModel, type ToyOptions } from "../support/toy-model.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

/** What an `LLM` is over its engine, over the toy. */
function inProcess(model: ToyModel): PerigeeModel {
  return {
    info: model.info,
    chatStream: (messages, options) => chatEvents(model, [...messages] as ChatMessage[], options),
    embed: (values) => model.embed([...values]),
  };
}

interface Opened {
  readonly model: ToyModel;
  readonly perigee: PerigeeProvider;
}

const WAYS: Readonly<Record<string, (options: ToyOptions) => Promise<Opened>>> = {
  "in process": async (options) => {
    const model = new ToyModel(options);
    return { model, perigee: createPerigee({ llm: inProcess(model) }) };
  },
  "by URL": async (options) => {
    const { model, server } = await serveToy(options);
    return { model, perigee: createPerigee({ baseURL: `${server.url}/v1/` }) };
  },
};

const call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>';
const weather = tool({
  description: "The weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => ({ city, degrees: 7 }),
});

test("an LLM is what the provider takes", () => {
  expectTypeOf<LLM>().toExtend<PerigeeModel>();
  expect(LLM.load).toBeTypeOf("function");
});

describe.each(Object.keys(WAYS))("%s", (way) => {
  const open = (options: ToyOptions = {}): Promise<Opened> => {
    const opener = WAYS[way];
    if (opener === undefined) throw new Error(`no way ${way}`);
    return opener(options);
  };

  test("generateText answers, with usage and a finish reason", async () => {
    const { model, perigee } = await open({ reply: () => "Mild." });
    const result = await generateText({
      ...{ model: perigee("toy"), instructions: "Be short.", prompt: "weather?" },
      ...{ maxOutputTokens: 20, temperature: 0, topP: 0.5, topK: 3, seed: 7 },
      ...{ stopSequences: ["!"], presencePenalty: 0.5, frequencyPenalty: 0.25 },
    });
    expect(result.text).toBe("Mild.");
    expect(result.finishReason).toBe("stop");
    expect(result.usage).toMatchObject({
      inputTokens: "system: Be short.\nuser: weather?\nassistant:".length,
      outputTokens: "Mild.".length + 1,
      inputTokenDetails: { cacheReadTokens: 0 },
    });
    expect(model.requests[0]).toMatchObject({
      ...{ maxTokens: 20, temperature: 0, topP: 0.5, topK: 3, seed: 7, stop: ["!"] },
      ...{ presencePenalty: 0.5, frequencyPenalty: 0.25 },
    });
    expect(model.chats[0]?.messages).toMatchObject([
      { role: "system", content: "Be short." },
      { role: "user", content: "weather?" },
    ]);
  });

  test("usage tells the prompt tokens that were cached", async () => {
    const { perigee } = await open({ reply: () => "Mild." });
    const asked = { model: perigee("toy"), prompt: "a question of some length?" };
    await generateText(asked);
    const { usage } = await generateText(asked);
    expect(usage.inputTokenDetails.cacheReadTokens).toBeGreaterThanOrEqual(16);
    const { inputTokens = 0, inputTokenDetails: of } = usage;
    expect((of.noCacheTokens ?? 0) + (of.cacheReadTokens ?? 0)).toBe(inputTokens);
  });

  test("streamText streams text, and thinking before it", async () => {
    const { perigee } = await open({
      ...{ reply: () => "<think>hm</think>Mild.", chatTemplate: "</think>" },
    });
    const result = streamText({ model: perigee("toy"), prompt: "weather?" });
    const kinds: string[] = [];
    for await (const { type } of result.fullStream) if (kinds.at(-1) !== type) kinds.push(type);
    const parts = ["reasoning-start", "reasoning-delta", "reasoning-end"];
    expect(kinds.filter((kind) => /^(text|reasoning)/.test(kind))).toEqual([
      ...[...parts, "text-start", "text-delta", "text-end"],
    ]);
    expect(await result.text).toBe("Mild.");
    expect(await result.reasoningText).toBe("hm");
    const usage = await result.usage;
    expect(usage.outputTokenDetails.reasoningTokens).toBe("<think>hm</think>".length);
  });

  test("reasoning none turns thinking off in the chat template", async () => {
    const { model, perigee } = await open({ reply: () => "Mild." });
    await generateText({ model: perigee("toy"), prompt: "weather?", reasoning: "none" });
    const thinking = (at: number) => model.chats[at]?.options.templateVariables;
    expect(thinking(0)).toEqual({ enable_thinking: false });
    await generateText({
      ...{ model: perigee("toy"), prompt: "weather?", reasoning: "none" },
      providerOptions: { perigee: { thinking: true, templateVariables: { a: 1 } } },
    });
    expect(thinking(1)).toEqual({ enable_thinking: true, a: 1 });
  });

  test("tools are called, run, and their results sent back", async () => {
    let answers = 0;
    const { model, perigee } = await open({
      reply: () => (answers++ === 0 ? `Let me look. ${call}` : "7 degrees."),
    });
    const result = await generateText({
      ...{ model: perigee("toy"), prompt: "weather?", tools: { get_weather: weather } },
      stopWhen: stepCountIs(3),
    });
    expect(result.text).toBe("7 degrees.");
    expect(result.steps).toHaveLength(2);
    expect(result.steps[0]?.finishReason).toBe("tool-calls");
    expect(result.steps[0]?.toolResults).toMatchObject([{ output: { city: "Oslo", degrees: 7 } }]);
    const turns = model.chats[1]?.messages ?? [];
    expect(turns.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    expect(turns[2]?.content).toBe('{"city":"Oslo","degrees":7}');
    expect(model.chats[0]?.options.tools).toMatchObject([
      { type: "function", function: { name: "get_weather" } },
    ]);
  });

  test("a stream has a call's input in pieces, and the same call at its end", async () => {
    const { perigee } = await open({ reply: () => call + call });
    const result = streamText({
      ...{ model: perigee("toy"), prompt: "weather?", tools: { get_weather: weather } },
    });
    const inputs = new Map<string, string>();
    for await (const part of result.fullStream) {
      if (part.type !== "tool-input-delta") continue;
      inputs.set(part.id, (inputs.get(part.id) ?? "") + part.delta);
    }
    const inPieces = [...inputs.values()].map((text) => JSON.parse(text));
    expect(inPieces).toEqual([{ city: "Oslo" }, { city: "Oslo" }]);
    const calls = await result.toolCalls;
    expect(calls.map(({ input: given }) => given)).toEqual([{ city: "Oslo" }, { city: "Oslo" }]);
    expect(new Set(calls.map(({ toolCallId }) => toolCallId)).size).toBe(2);
  });

  test("required and named calls are forced by a grammar", async () => {
    const { model, perigee } = await open();
    const asked = { model: perigee("toy"), prompt: "weather?", tools: { get_weather: weather } };
    const { toolCalls } = await generateText({ ...asked, toolChoice: "required" });
    expect(toolCalls).toMatchObject([{ toolName: "get_weather", input: { city: "word" } }]);
    await generateText({ ...asked, toolChoice: { type: "tool", toolName: "get_weather" } });
    const tags = model.requests.map(({ structuredOutput }) => structuredOutput?.structuralTag);
    expect(tags).toMatchObject([{ type: "structural_tag" }, { type: "structural_tag" }]);
  });

  test("objects fit their schema by a grammar", async () => {
    const { model, perigee } = await open();
    const schema = z.object({ city: z.string(), degrees: z.number() });
    const { output } = await generateText({
      ...{ model: perigee("toy"), prompt: "weather?", output: Output.object({ schema }) },
    });
    expect(output).toEqual({ city: "word", degrees: 7 });
    expect(model.requests[0]?.structuredOutput?.json).toMatchObject({ type: "object" });
  });

  test("options of the cache go to the engine", async () => {
    const { model, perigee } = await open({ reply: () => "Mild." });
    const retention = {
      ranges: [{ start: 0, end: 100, priority: 90, durationMs: 60_000 }],
      decodePriority: 10,
    };
    await generateText({
      ...{ model: perigee("toy"), prompt: "weather?" },
      providerOptions: {
        perigee: { retention, cacheSalt: "tenant-7", priority: 3, speculative: false },
      },
    });
    expect(model.requests[0]).toMatchObject({
      retention,
      ...{ cacheSalt: "tenant-7", priority: 3, speculative: false },
    });
  });

  test("a wrong option of the provider is refused", async () => {
    const { perigee } = await open();
    const wrong = generateText({
      ...{ model: perigee("toy"), prompt: "weather?", maxRetries: 0 },
      providerOptions: { perigee: { cacheSlat: "x" } },
    });
    await expect(wrong).rejects.toThrow(/cacheSlat: must be one of retention, cacheSalt/);
  });

  test("an image is refused, a file of text is read", async () => {
    const { model, perigee } = await open({ reply: () => "Yes." });
    const file = (mediaType: string) =>
      generateText({
        ...{ model: perigee("toy"), maxRetries: 0 },
        messages: [
          {
            role: "user",
            content: [
              { type: "file", data: new TextEncoder().encode("inside"), mediaType },
              { type: "text", text: " what?" },
            ],
          },
        ],
      });
    await file("text/plain");
    expect(model.chats[0]?.messages).toMatchObject([{ content: "inside what?" }]);
    await expect(file("image/png")).rejects.toThrow("Perigee's models read texts only");
  });

  test("cancelling a stream cancels the request", async () => {
    const { model, perigee } = await open({ reply: () => "word ".repeat(500), msPerToken: 1 });
    const controller = new AbortController();
    const result = streamText({
      ...{ model: perigee("toy"), prompt: "weather?", abortSignal: controller.signal },
    });
    for await (const text of result.textStream) {
      if (text !== "") controller.abort();
    }
    await expect.poll(() => model.runningCount).toBe(0);
    expect(model.abortedCount).toBe(1);
  });

  test("vectors have the texts' order and count their tokens", async () => {
    const { perigee } = await open();
    const values = ["a cache", "a mutex"];
    const { embeddings, usage } = await embedMany({
      ...{ model: perigee.embeddingModel("toy"), values },
    });
    expect(embeddings).toHaveLength(2);
    expect(embeddings[0]).not.toEqual(embeddings[1]);
    expect(Math.hypot(...(embeddings[0] ?? []))).toBeCloseTo(1, 5);
    expect(usage.tokens).toBe(values.join("").length);
  });
});

describe("models by name", () => {
  test("in process there is the loaded one", () => {
    const perigee = createPerigee({ llm: inProcess(new ToyModel()) });
    expect(perigee()).toMatchObject({ specificationVersion: "v4", modelId: "toy" });
    expect(() => perigee("gpt-9")).toThrow("This process has the model toy, not gpt-9");
    expect(() => perigee.imageModel("toy")).toThrow();
  });

  test("by URL a name is needed, and the server's errors keep their status", async () => {
    const { server } = await serveToy();
    const perigee = createPerigee({ baseURL: `${server.url}/v1` });
    expect(() => perigee()).toThrow("it must have a name");
    const wrong = generateText({ model: perigee("gpt-9"), prompt: "Hi", maxRetries: 0 });
    await expect(wrong).rejects.toMatchObject({ statusCode: 404, isRetryable: false });
  });
});
