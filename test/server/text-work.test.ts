/**
 * Texts, templates and words that were made to cost much: each is answered or refused by name, and
 * stops no other. The server answers on the test's own thread, so a turn of it is a turn of the server.
 */
import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";
import { TextPool } from "#tokenizer";
import { sized } from "../support/full.ts";
import { json } from "../support/json.ts";

const MB = 10 ** 6;
const DEADLINE_MS = sized(2_000, 3_000);
const TEXT_BYTES = sized(75_000, 300_000);
/** Shows no tools, and walks over the arguments of calls. */
const chatTemplate =
  "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}" +
  "{% for call in message.tool_calls or [] %}{% for name in call.function.arguments.keys() %}" +
  "{{ name }}{% endfor %}{% endfor %}\n{% endfor %}";
const messages = [{ role: "user", content: "Hello" }];
const tools = [
  { type: "function", function: { name: "look_up", description: "Finds a word.", parameters: {} } },
];

let llm: LLM;
let server: RunningServer;
const warnings: string[] = [];

// Threads run built code.
const isBuilt = existsSync("dist/tokenizer/text-thread.js");

beforeAll(async () => {
  llm = await LLM.load("models/pocket", {
    ...{ engineThread: false, chatTemplate, textDeadlineMs: DEADLINE_MS },
    onWarning: (message) => warnings.push(message),
  });
  const options = { port: 0, logLevel: "silent", allowRequestChatTemplate: true } as const;
  server = await startServer(llm, { requestBytesMax: 16 * MB, ...options });
});

afterAll(async () => {
  await server?.close();
  await llm?.[Symbol.asyncDispose]();
});

function post(path: string, body: unknown): Promise<Response> {
  return fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

async function refusal(path: string, body: unknown): Promise<string> {
  const answer = await post(path, body);
  const { error } = await json(answer);
  expect({ status: answer.status, error }).toMatchObject({ status: 400 });
  return String(error?.message);
}

/** The prompt that a conversation becomes. */
async function rendered(conversation: Record<string, unknown>): Promise<string> {
  const { tokens } = await json(post("/tokenize", conversation));
  const { prompt } = await json(post("/detokenize", { tokens }));
  return String(prompt);
}

/** What `ask` gives, and how many requests for a short prompt were answered meanwhile. */
async function besideShortOnes<T>(ask: Promise<T>): Promise<{ answer: T; answered: number }> {
  let over = false;
  let answered = 0;
  const others = (async () => {
    while (!over) {
      const { status } = await post("/tokenize", { messages });
      if (status === 200 && !over) answered += 1;
    }
  })();
  const answer = await ask;
  over = true;
  await others;
  return { answer, answered };
}

describe.runIf(isBuilt)("work whose cost a client decides", () => {
  test("a template's loop is stopped by name, while others are answered", async () => {
    const loop = "{% for i in range(99999) %}";
    const end = "{% endfor %}";
    const body = { messages, chat_template: loop + loop + end + end };
    const { answer, answered } = await besideShortOnes(refusal("/v1/chat/completions", body));
    expect(answer).toContain(`${DEADLINE_MS} ms (textDeadlineMs)`);
    expect(answered).toBeGreaterThan(3);
  });

  test("a template's range of 3,000,000 is refused by name", async () => {
    const body = { messages, chat_template: "{% for i in range(3000000) %}{% endfor %}" };
    expect(await refusal("/v1/chat/completions", body)).toContain("at most 100000 items");
  });

  test("50,000 bad_words are refused by name, and 1,024 are encoded on a thread", async () => {
    const words = Array.from({ length: 50_000 }, (_, i) => `word ${i}`);
    const body = { prompt: "Hello", max_tokens: 1 };
    const many = { ...body, bad_words: words };
    expect(await refusal("/v1/completions", many)).toMatch(/bad_words.*1024/);
    const run = vi.spyOn(TextPool.prototype, "run");
    const some = { ...body, bad_words: words.slice(0, 1024) };
    expect((await post("/v1/completions", some)).status).toBe(200);
    expect(run.mock.calls.map(([job]) => job.kind)).toEqual(["badWords"]);
    run.mockRestore();
  });

  test("65 stop strings, and one of 1,025 characters, are refused by name", async () => {
    const body = { prompt: "Hello", max_tokens: 1 };
    const many = Array.from({ length: 65 }, (_, i) => `stop ${i}`);
    expect(await refusal("/v1/completions", { ...body, stop: many })).toMatch(/stop.*64/);
    const long = { ...body, stop: ["x".repeat(1025)] };
    expect(await refusal("/v1/completions", long)).toMatch(/stop.*1024 characters/);
  });

  test("a prompt of 10 MB is refused before it is encoded, at every door", async () => {
    const run = vi.spyOn(TextPool.prototype, "run");
    const long = "word ".repeat(2 * MB);
    const turn = [{ role: "user", content: long }];
    for (const [path, body] of [
      ["/v1/completions", { prompt: long }],
      ["/v1/completions", { prompt: ["short", long], stream: true }],
      ["/v1/chat/completions", { messages: turn }],
      ["/v1/embeddings", { input: long }],
      ["/tokenize", { prompt: long }],
      ["/tokenize", { messages: turn }],
    ] as const) {
      const message = await refusal(path, body);
      expect(message).toMatch(/context length of \d+ tokens|bytes \(promptBytesMax\)/);
    }
    for (const ask of [
      () => llm.generate(long),
      () => llm.stream(long).next(),
      () => llm.embed([long]),
      () => llm.chatPrompt(turn),
      () => llm.promptLogits(long),
    ]) {
      await expect(ask()).rejects.toMatchObject({ code: "PROMPT_TOO_LONG" });
    }
    expect(run).not.toHaveBeenCalled();
    run.mockRestore();
  });

  test("/tokenize of a long text lets others be answered, and spells only where asked", async () => {
    const prompt = "word ".repeat(40_000);
    const ask = json(post("/tokenize", { prompt }));
    const { answer, answered } = await besideShortOnes(ask);
    expect(answer).toMatchObject({ token_strs: null });
    expect(answered).toBeGreaterThan(0);
    const { tokens, token_strs: spelled } = await json(
      post("/tokenize", { prompt: "a word", return_token_strs: true }),
    );
    expect(Object.values(spelled ?? {}).join("")).toBe("a word");
    expect(Object.values(tokens ?? {})).toHaveLength(Object.values(spelled ?? {}).length);
  });

  test("/detokenize of 200,000 tokens lets others be answered", async () => {
    const [id = 0] = (await llm.codec?.encode("a")) ?? [];
    const tokens = Array.from({ length: 200_000 }, () => id);
    const { answer } = await besideShortOnes(json(post("/detokenize", { tokens })));
    expect(String(answer.prompt)).toHaveLength(200_000);
  });

  test.each([
    ["spaces", " "],
    ["newlines", "\n"],
    ["one letter", "a"],
    ["digits", "7"],
    ["combining marks", "\u0301"],
    ["lone surrogates", "\ud800"],
    ["NUL", "\0"],
    ["one ideograph", "的"],
    ["halves of special tokens", "<|im_star"],
    ["families", "👩‍👩‍👧"],
  ])(`${TEXT_BYTES / 1000} kB of %s let others be answered`, async ([, unit = ""]) => {
    const prompt = unit.repeat(TEXT_BYTES / Buffer.byteLength(unit));
    const { answer, answered } = await besideShortOnes(post("/tokenize", { prompt }));
    expect([200, 400]).toContain(answer.status);
    if (answer.status === 400) {
      expect((await json(answer)).error?.message).toContain("textDeadlineMs");
      expect(answered).toBeGreaterThan(3);
    }
  });
});

describe.runIf(isBuilt)("tools", () => {
  test("without a place in the template become text, with one warning", async () => {
    const history = [
      { role: "user", content: "What is a mole?" },
      {
        role: "assistant",
        tool_calls: [
          {
            id: "1",
            type: "function",
            function: { name: "look_up", arguments: '{"word":"mole"}' },
          },
        ],
      },
      { role: "tool", tool_call_id: "1", content: "a burrowing mammal" },
    ];
    for (let i = 0; i < 2; i++) {
      const prompt = await rendered({ messages: history, tools });
      expect(prompt).toMatch(/^<\|system\|># Tools.*"name":"look_up".*Finds a word/s);
      expect(prompt).toContain('<tool_call>\n{"name":"look_up","arguments":{"word":"mole"}}');
      expect(prompt).toContain("<tool_response>\na burrowing mammal\n</tool_response>");
    }
    expect(warnings.filter((text) => text.includes("does not render tools"))).toHaveLength(1);
  });

  test("a call of the history whose arguments are no JSON does not end an agent's loop", async () => {
    const broken = { id: "1", type: "function", function: { name: "f", arguments: '{"a": ' } };
    const history = [
      ...messages,
      { role: "assistant", content: "", tool_calls: [broken] },
      ...messages,
    ];
    const answer = await post("/v1/chat/completions", { messages: history, max_tokens: 1 });
    expect(answer.status).toBe(200);
    // As text where calls are text, and as an object's field where the template wants objects.
    expect(await rendered({ messages: history })).toContain('{\\"a\\": ');
    const walking =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}" +
      "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endfor %}" +
      "{{ m.content }}{% endfor %}";
    expect(await rendered({ messages: history, chat_template: walking })).toContain(
      'arguments={"a": ',
    );
  });
});

describe.runIf(isBuilt)("texts to embed", () => {
  test("a chat model's vectors come with one warning", async () => {
    for (let i = 0; i < 2; i++) {
      expect((await post("/v1/embeddings", { input: "Hello" })).status).toBe(200);
    }
    const guesses = warnings.filter((text) => text.includes("do not say how to embed"));
    expect(guesses).toEqual([expect.stringContaining('LLM.load("embedder")')]);
  });

  test("one that is too long is named by its index", async () => {
    const { contextTokensMax } = llm.info;
    const tokens = Array.from({ length: contextTokensMax + 1 }, () => 5);
    expect(await refusal("/v1/embeddings", { input: [[5], tokens] })).toContain("input[1]");
    const long = "word ".repeat(contextTokensMax * 30);
    expect(await refusal("/v1/embeddings", { input: ["short", "short", long] })).toContain(
      "input[2]",
    );
    await expect(llm.embed(["short", long])).rejects.toMatchObject({
      code: "PROMPT_TOO_LONG",
      param: "input[1]",
      message: expect.stringContaining("truncate: true"),
    });
  });
});
