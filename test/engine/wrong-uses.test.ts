/** What developers try first and cannot have: each is refused with what to do instead. */
import { afterAll, beforeAll, expect, expectTypeOf, test } from "vitest";
import {
  bundledModel,
  type EmbedResult,
  type GenerateOptions,
  type GenerateResult,
  LLM,
  type StructuredOutput,
  startMockModel,
  startMockModels,
} from "#engine";
import { openEmbedder } from "#rag/embedders";
import { Rag } from "#rag/service";
import { openStore } from "#rag/stores";
import { reserveServer, startServer } from "#server";

let llm: LLM;

beforeAll(async () => {
  llm = await LLM.load("pocket");
});

afterAll(async () => {
  await llm?.close();
});

const messages = [{ role: "user", content: "hi" }];
const openAiTool = { type: "function", function: { name: "f", parameters: {} } };

const wrong: readonly [what: string, call: () => unknown, message: string][] = [
  ["a model that is no text", () => Reflect.apply(LLM.load, LLM, [42]), "Cannot use model: "],
  [
    "options in the model's place",
    () => Reflect.apply(LLM.load, LLM, [{ device: "cpu" }]),
    "current value is an object; options come behind it: LLM.load(bundledModel, options)",
  ],
  [
    "a misspelt option",
    () => Reflect.apply(LLM.load, LLM, [bundledModel, { devise: "cpu" }]),
    "Cannot use devise: is not a known field; did you mean device?",
  ],
  [
    "an option outside of its group",
    () => Reflect.apply(LLM.load, LLM, [bundledModel, { poolBytes: 2 ** 26 }]),
    "Cannot use poolBytes: is not a known field; did you mean kvCache.poolBytes?",
  ],
  ["a constructor", () => Reflect.construct(LLM, []), "await LLM.load(model, options)"],
  [
    "OpenAI's spelling",
    () => Reflect.apply(llm.generate, llm, ["A", { max_tokens: 5 }]),
    "Cannot use max_tokens: is not a known field; did you mean maxTokens?",
  ],
  [
    "a misspelt option of the call",
    () => Reflect.apply(llm.generate, llm, ["A", { signl: null }]),
    "Cannot use signl: is not a known field; did you mean signal?",
  ],
  [
    "a number as text",
    () => Reflect.apply(llm.generate, llm, ["A", { maxTokens: "5" }]),
    'Cannot use maxTokens: must be a number, current value is "5"',
  ],
  [
    "a conversation as prompts",
    () => Reflect.apply(llm.generate, llm, [messages]),
    "current value is an object; give conversations to chat(), or to chatPrompt() first",
  ],
  ["no prompt", () => Reflect.apply(llm.generate, llm, []), "current value is undefined"],
  [
    "an empty conversation",
    () => llm.chat([]),
    "Cannot use messages: must have at least one message, there is none",
  ],
  [
    "a message that is no list",
    () => Reflect.apply(llm.chat, llm, [messages[0]]),
    "Cannot use messages: must be a list of messages, current value is an object",
  ],
  [
    "OpenAI's form of a tool",
    () => Reflect.apply(llm.chat, llm, ["hi", { tools: [openAiTool] }]),
    "Cannot use tools[0].function: is OpenAI's form: give { name, description, parameters }",
  ],
  [
    "an unknown choice",
    () => Reflect.apply(llm.chat, llm, ["hi", { toolChoice: "always" }]),
    'current value is "always"',
  ],
  [
    "an unknown role",
    () => llm.chat([{ role: "usr", content: "hi" }]),
    "Cannot use messages[0].role: must be system, developer, user, assistant, tool or function, " +
      'current value is "usr"',
  ],
  [
    "a message that says nothing",
    () => llm.chatPrompt([...messages, { role: "user" }]),
    "Cannot use messages[1].content: must be text or a list of text parts, current value is " +
      "undefined",
  ],
  [
    "an image",
    () => llm.chat([{ role: "user", content: [{ type: "image_url", image_url: {} }] }]),
    "Cannot use messages[0].content[0]: must be a text part",
  ],
  [
    "two structures at once",
    () => Reflect.apply(llm.generate, llm, ["A", { structuredOutput: { json: "{}", regex: "a" } }]),
    "Cannot use structuredOutput: needs exactly one of json, jsonObject, regex",
  ],
  [
    "one text to score",
    () => Reflect.apply(llm.score, llm, ["a", "b"]),
    'Cannot use texts: must be a list of texts, current value is "b"',
  ],
  [
    "a server without a model",
    () => Reflect.apply(startServer, null, [{ port: 0 }]),
    "startServer(await LLM.load(), options)",
  ],
  [
    "a server whose options are null",
    () => Reflect.apply(startServer, null, [llm, null]),
    "Cannot use options: must be an object, current value is null; leave it out",
  ],
  [
    "a misspelt scheme, without the password",
    () => openStore("milvs://user:secret@host"),
    "current value begins with milvs://; use one of these, or the path of a folder",
  ],
];

test.for(wrong)("%s is refused with what to do", async ([, call, message]) => {
  const error = await (async () => call())().then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({ name: "EngineError", code: "INVALID_ARGUMENT" });
  expect(String(error)).toContain(message);
  expect(String(error)).not.toContain("secret");
});

const optional: readonly [call: string, call: () => unknown][] = [
  ["LLM.load", () => Reflect.apply(LLM.load, LLM, [bundledModel, null])],
  ["generate", () => Reflect.apply(llm.generate, llm, ["A", null])],
  ["stream", () => Reflect.apply(llm.stream, llm, ["A", null])],
  ["streams", () => Reflect.apply(llm.streams, llm, [["A"], null])],
  ["chat", () => Reflect.apply(llm.chat, llm, ["hi", null])],
  ["chatStream", () => Reflect.apply(llm.chatStream, llm, ["hi", null]).next()],
  ["chatPrompt", () => Reflect.apply(llm.chatPrompt, llm, [messages, null])],
  ["embed", () => Reflect.apply(llm.embed, llm, ["A", null])],
  ["score", () => Reflect.apply(llm.score, llm, ["a", ["b"], null])],
  ["startMockModel", () => Reflect.apply(startMockModel, null, [null])],
  ["startMockModels", () => Reflect.apply(startMockModels, null, [1, null])],
  ["reserveServer", () => Reflect.apply(reserveServer, null, [null])],
  ["openStore", () => Reflect.apply(openStore, null, ["nowhere", null])],
  ["openEmbedder", () => Reflect.apply(openEmbedder, null, ["embedder", null])],
  ["Rag.open", () => Reflect.apply(Rag.open, Rag, [null])],
];

test.for(optional)("options of %s that are null are refused as what they are", async ([, call]) => {
  await expect((async () => call())()).rejects.toMatchObject({
    ...{ name: "EngineError", code: "INVALID_ARGUMENT", param: "options" },
    message: "Cannot use options: must be an object, current value is null; leave it out",
  });
});

test("a closed model gets no server, and its address stays free", async () => {
  await using free = await reserveServer({ port: 0 });
  const port = Number(new URL(free.url).port);
  await free.close();
  const closed = await startMockModel();
  await closed.close();
  await expect(startServer(closed, { port })).rejects.toMatchObject({
    ...{ name: "EngineError", code: "ENGINE_DEAD", param: "model" },
    message: expect.stringMatching(/^Cannot start a server: .* it has ended \(closed\); load the/),
  });
  await using again = await reserveServer({ port });
  expect(new URL(again.url).port).toBe(String(port));
  await expect(again.serve(closed)).rejects.toMatchObject({ code: "ENGINE_DEAD" });
});

test("kinds of structured output exclude each other in types, too", () => {
  expectTypeOf<{ json: string }>().toExtend<StructuredOutput>();
  expectTypeOf<{ regex: string; json: undefined }>().toExtend<StructuredOutput>();
  expectTypeOf<{ json: string; regex: string }>().not.toExtend<StructuredOutput>();
  expectTypeOf<Record<never, never>>().not.toExtend<StructuredOutput>();
  type Asks<Output> = { structuredOutput: Output };
  expectTypeOf<Asks<{ json: string }>>().toExtend<GenerateOptions>();
  expectTypeOf<Asks<{ json: string; regex: string }>>().not.toExtend<GenerateOptions>();
});

test("what a conversation may be is the same over HTTP and in TypeScript", async () => {
  await using server = await startServer(llm, { port: 0, logLevel: "silent" });
  const verdicts = async (message: unknown) => {
    const body = JSON.stringify({ messages: [...messages, message], max_tokens: 1 });
    const headers = { "content-type": "application/json" };
    const url = `${server.url}/v1/chat/completions`;
    const { status } = await fetch(url, { method: "POST", headers, body });
    const here = Reflect.apply(llm.chatPrompt, llm, [[...messages, message]]);
    const error: unknown = await here.then(
      () => null,
      (reason: unknown) => reason,
    );
    if (error !== null) expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
    return [status < 400, error === null];
  };
  const text = (type: string) => ({ role: "user", content: [{ type, text: "hi" }] });
  const right: unknown[] = [
    ...["system", "developer", "user", "tool"].map((role) => ({ role, content: "hi" })),
    ...[{ role: "assistant", content: null }, { role: "tool" }, { role: "function" }],
    ...[text("text"), text("input_text"), { role: "user", content: [] }],
    { role: "assistant", content: [{ type: "refusal", refusal: "no" }] },
  ];
  const wrong: unknown[] = [
    ...[{}, null, 5, "hi", [], { content: "hi" }, { role: "robot", content: "hi" }, { role: 5 }],
    ...["system", "developer", "user"].flatMap((role) => [{ role }, { role, content: null }]),
    ...[{ role: "user", content: 5 }, { role: "user", content: {} }, text("image_url")],
    ...[
      { role: "user", content: [5] },
      { role: "user", content: [{ type: "text" }] },
    ],
    { role: "assistant", content: [{ type: "refusal", text: "no" }] },
  ];
  for (const message of right)
    expect([message, await verdicts(message)]).toEqual([message, [true, true]]);
  for (const message of wrong)
    expect([message, await verdicts(message)]).toEqual([message, [false, false]]);
});

test("options may be undefined, which is to leave them out", async () => {
  const given: { signal: AbortSignal | undefined; temperature: number | undefined } = {
    ...{ signal: undefined, temperature: undefined },
  };
  const options = { ...given, maxTokens: 1, seed: 1 };
  const left = { maxTokens: 1, seed: 1 };
  const [one] = await llm.generate("A cache is", options);
  const [other] = await llm.generate("A cache is", left);
  expect(one.completions[0]?.tokenIds).toEqual(other.completions[0]?.tokenIds);
  expect((await llm.chat("hi", { ...options, thinking: undefined })).rounds).toBe(1);
});

test("one prompt has one result, one text one vector", async () => {
  const generated = await llm.generate("A cache is", { maxTokens: 1 });
  expectTypeOf(generated).toEqualTypeOf<[GenerateResult]>();
  expect(generated).toHaveLength(1);
  const vectors = await llm.embed("A cache is");
  expectTypeOf(vectors).toEqualTypeOf<[EmbedResult]>();
  expect(vectors).toEqual(await llm.embed(["A cache is"]));
});
