/** What developers try first and cannot have: each is refused with what to do instead. */
import { afterAll, beforeAll, expect, expectTypeOf, test } from "vitest";
import { bundledModel, type EmbedResult, type GenerateResult, LLM } from "#engine";
import { openStore } from "#rag/stores";
import { startServer } from "#server";

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
