import { describe, expect, expectTypeOf, test } from "vitest";
import {
  type ChatCallOptions,
  type ChatEvent,
  type ChatMessage,
  type ChatTool,
  defineTool,
} from "#engine";
import { chatEvents, chatResult } from "../../src/engine/caller/chat-rounds.ts";
import { ToyModel, type ToyOptions } from "../support/toy-model.ts";

const question: readonly ChatMessage[] = [{ role: "user", content: "weather?" }];

const weather = defineTool({
  name: "get_weather",
  description: "The weather of a city.",
  parameters: {
    type: "object",
    properties: {
      city: { type: "string" },
      days: { type: "integer" },
      unit: { enum: ["c", "f"] },
    },
    required: ["city"],
  },
  run: ({ city, days = 1 }) => ({ city, days, degrees: 7 }),
});

function call(name: string, given: unknown): string {
  return `<tool_call>${JSON.stringify({ name, arguments: given })}</tool_call>`;
}

/** A model that gives these answers, one after the other. */
function scripted(answers: readonly string[], options: ToyOptions = {}): ToyModel {
  let given = 0;
  return new ToyModel({ reply: () => answers[given++] ?? "no more", ...options });
}

async function eventsOf(
  model: ToyModel,
  options: ChatCallOptions = {},
): Promise<readonly ChatEvent[]> {
  const events: ChatEvent[] = [];
  for await (const event of chatEvents(model, question, options)) events.push(event);
  return events;
}

describe("a chat without tools", () => {
  test("answers, and returns what comes to the conversation", async () => {
    const model = scripted(["Mild."]);
    const result = await chatResult(chatEvents(model, question, { temperature: 0 }));
    expect(result).toEqual({
      ...{ text: "Mild.", reasoning: null, toolCalls: [], finishReason: "stop", rounds: 1 },
      messages: [{ role: "assistant", content: "Mild." }],
      usage: { promptTokens: 25, cachedTokens: 0, completionTokens: 6, reasoningTokens: 0 },
    });
    expect(model.requests[0]?.temperature).toBe(0);
  });

  test("tells thinking from the answer, and keeps it in the conversation", async () => {
    const model = scripted(["<think>hm</think>Mild."], { chatTemplate: "</think>" });
    const result = await chatResult(chatEvents(model, question, { thinking: true }));
    expect(result).toMatchObject({ text: "Mild.", reasoning: "hm" });
    expect(result.usage.reasoningTokens).toBe("<think>hm</think>".length);
    expect(result.messages).toEqual([
      { role: "assistant", content: "Mild.", reasoning_content: "hm" },
    ]);
    expect(model.chats[0]?.options.templateVariables).toEqual({ enable_thinking: true });
  });
});

describe("calls of tools with handlers", () => {
  test("are run, and the model answers with their results", async () => {
    const model = scripted([`Let me look. ${call("get_weather", { city: "Oslo" })}`, "7 degrees."]);
    const result = await chatResult(chatEvents(model, question, { tools: [weather] }));
    expect(result).toMatchObject({ text: "7 degrees.", rounds: 2, finishReason: "stop" });
    expect(result.toolCalls).toEqual([]);
    const id = expect.stringMatching(/^call_[0-9a-f]{24}$/);
    expect(result.messages).toEqual([
      {
        role: "assistant",
        content: "Let me look.",
        tool_calls: [
          { id, type: "function", function: { name: "get_weather", arguments: '{"city":"Oslo"}' } },
        ],
      },
      {
        ...{ role: "tool", tool_call_id: id, name: "get_weather" },
        content: '{"city":"Oslo","days":1,"degrees":7}',
      },
      { role: "assistant", content: "7 degrees." },
    ]);
    // The second round has the first one's messages, and the tools.
    expect(model.chats[1]?.messages).toEqual([...question, ...result.messages.slice(0, 2)]);
    expect(model.chats[1]?.options.tools).toHaveLength(1);
  });

  test("come as events in order", async () => {
    const events = await eventsOf(scripted([call("get_weather", { city: "Oslo" }), "Mild."]), {
      tools: [weather],
    });
    const kinds = events.map(({ type }) => type).filter((type, i, all) => type !== all[i - 1]);
    expect(kinds).toEqual([
      ...["tool-call-start", "tool-call-delta", "tool-call", "tool-result", "text", "end"],
    ]);
    const deltas = events.map((event) => (event.type === "tool-call-delta" ? event.text : ""));
    expect(JSON.parse(deltas.join(""))).toEqual({ city: "Oslo" });
  });

  test("end at the bound of rounds, unanswered", async () => {
    const model = scripted(Array.from({ length: 5 }, () => call("get_weather", { city: "Oslo" })));
    const options = { tools: [weather], roundsMax: 3 };
    const result = await chatResult(chatEvents(model, question, options));
    expect(result).toMatchObject({ rounds: 3, finishReason: "tool-calls" });
    expect(result.toolCalls).toMatchObject([{ name: "get_weather", arguments: { city: "Oslo" } }]);
    expect(model.requests).toHaveLength(3);
  });

  test("that fail, do not fit the schema or do not exist are told to the model", async () => {
    const failing: ChatTool = {
      name: "fail",
      run: () => {
        throw new Error("no network");
      },
    };
    const calls = [
      call("fail", {}),
      call("get_weather", { days: 2 }),
      call("get_weather", { city: 3 }),
      call("get_weather", { city: "Oslo", unit: "k" }),
      call("fly", {}),
    ];
    const events = await eventsOf(scripted([calls.join("\n"), "Sorry."]), {
      tools: [weather, failing],
    });
    const results = events.flatMap((event) => (event.type === "tool-result" ? [event] : []));
    expect(results.map(({ result }) => JSON.parse(result).error)).toEqual([
      "no network",
      "arguments must have city",
      "arguments.city must be string",
      'arguments.unit must be one of ["c","f"]',
      "there is no tool fly",
    ]);
    expect(results.every(({ isError }) => isError)).toBe(true);
  });

  test("are not run where the answer was cut short", async () => {
    let runs = 0;
    const counting: ChatTool = { name: "count", run: () => ++runs };
    const model = scripted([call("count", {})]);
    const options = { tools: [counting], maxTokens: 40 };
    const result = await chatResult(chatEvents(model, question, options));
    expect(result.finishReason).toBe("length");
    expect(runs).toBe(0);
  });

  test("are run side by side", async () => {
    let resolve = () => {};
    const both = new Promise<void>((done) => {
      resolve = done;
    });
    let running = 0;
    const meeting: ChatTool = {
      name: "meet",
      run: async () => {
        running += 1;
        if (running === 2) resolve();
        await both;
        return "met";
      },
    };
    const calls = call("meet", {}) + call("meet", {});
    const result = await chatResult(
      chatEvents(scripted([calls, "Done."]), question, { tools: [meeting] }),
    );
    expect(result.text).toBe("Done.");
  });

  test("reject with the signal's reason when the chat is cancelled", async () => {
    const controller = new AbortController();
    const stopping: ChatTool = {
      name: "stop",
      run: (_, { signal }) => {
        controller.abort(new Error("enough"));
        signal?.throwIfAborted();
      },
    };
    const chat = chatResult(
      chatEvents(scripted([call("stop", {}), "Done."]), question, {
        ...{ tools: [stopping], signal: controller.signal },
      }),
    );
    await expect(chat).rejects.toThrow("enough");
  });
});

describe("calls of tools without handlers", () => {
  const plain: ChatTool = { name: "get_weather", parameters: weather.parameters ?? {} };

  test("end the chat", async () => {
    const result = await chatResult(
      chatEvents(scripted([call("get_weather", { city: "Oslo" })]), question, { tools: [plain] }),
    );
    expect(result).toMatchObject({ finishReason: "tool-calls", rounds: 1, text: "" });
    expect(result.toolCalls).toMatchObject([{ arguments: { city: "Oslo" } }]);
  });

  test("parallelToolCalls false keeps the first", async () => {
    const both = call("get_weather", { city: "Oslo" }) + call("get_weather", { city: "Bergen" });
    const options = { tools: [plain], parallelToolCalls: false };
    const result = await chatResult(chatEvents(scripted([both]), question, options));
    expect(result.toolCalls).toHaveLength(1);
  });

  test("a required call is forced in the first round only", async () => {
    const model = new ToyModel({ reply: () => "Mild." });
    const options = { tools: [weather], toolChoice: "required" as const };
    const result = await chatResult(chatEvents(model, question, options));
    expect(model.requests[0]?.structuredOutput?.structuralTag).toMatchObject({
      type: "structural_tag",
    });
    expect(model.requests[1]?.structuredOutput).toBeUndefined();
    expect(result).toMatchObject({ text: "Mild.", rounds: 2 });
  });

  test("the format follows from the template", async () => {
    const model = scripted(['[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}'], {
      chatTemplate: "[TOOL_CALLS][ARGS]",
    });
    const result = await chatResult(chatEvents(model, question, { tools: [plain] }));
    expect(result.toolCalls).toMatchObject([{ arguments: { city: "Oslo" } }]);
  });
});

describe("options", () => {
  test.for([
    [{ roundsMax: 0 }, "roundsMax"],
    [{ toolChoice: "required" }, "toolChoice"],
    [{ toolChoice: { name: "fly" }, tools: [weather] }, "toolChoice"],
    [{ toolChoice: "maybe" }, "toolChoice"],
    [{ tools: [{ name: "a b" }] }, "tools[0].name"],
    [{ tools: [weather, weather] }, "tools[1].name"],
    [{ tools: [{ name: "a", parameters: "{}" }] }, "tools[0].parameters"],
    [{ tools: [{ name: "a", run: 3 }] }, "tools[0].run"],
    [{ tools: Array.from({ length: 129 }, (_, at) => ({ name: `a${at}` })) }, "tools"],
    [{ tools: {} }, "tools"],
    [{ tools: null }, "tools"],
    [{ tools: [{ name: "a", description: 3 }] }, "tools[0].description"],
    [{ tools: [{ name: "a", parameters: { a: "x".repeat(2 ** 21) } }] }, "tools[0].parameters"],
    [{ thinking: "yes" }, "thinking"],
    [{ parallelToolCalls: 1 }, "parallelToolCalls"],
    [{ toolCallFormat: "toString" }, "toolCallFormat"],
    [{ reasoningFormat: "toString" }, "reasoningFormat"],
    [{ chatTemplate: 5 }, "chatTemplate"],
    [{ templateVariables: [] }, "templateVariables"],
    [{ signal: {} }, "signal"],
    [{ n: 2 }, "n"],
  ] as [object, string][])("%j are refused", async ([options, param]) => {
    // JavaScript callers may pass anything.
    const chat = chatResult(chatEvents(scripted([]), question, options as ChatCallOptions));
    await expect(chat).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param });
  });

  test("a handler's arguments have the types of its schema", () => {
    defineTool({
      name: "typed",
      parameters: {
        type: "object",
        properties: {
          text: { type: "string" },
          unit: { enum: ["c", "f"] },
          list: { type: "array", items: { type: "number" } },
          note: { type: ["string", "null"] },
          inner: { type: "object", properties: { on: { type: "boolean" } }, required: ["on"] },
        },
        required: ["text", "unit", "inner"],
      },
      run: (args) => {
        expectTypeOf(args.text).toEqualTypeOf<string>();
        expectTypeOf(args.unit).toEqualTypeOf<"c" | "f">();
        expectTypeOf(args.list).toEqualTypeOf<readonly number[] | undefined>();
        expectTypeOf(args.note).toEqualTypeOf<string | null | undefined>();
        expectTypeOf(args.inner.on).toEqualTypeOf<boolean>();
      },
    });
  });
});
