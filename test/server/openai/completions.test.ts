import { expect, test } from "vitest";
import { readEvents } from "../../support/events.ts";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

test("a text prompt is completed, 16 tokens by default", async () => {
  const { client, model } = await serveToy({ reply: () => "a".repeat(40) });
  const answer = await client.completions.create({ model: "toy", prompt: "once" });
  expect(answer.object).toBe("text_completion");
  expect(answer.choices).toMatchObject([
    { index: 0, text: "a".repeat(16), finish_reason: "length", logprobs: null },
  ]);
  expect(answer.usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 16 });
  expect(model.requests[0]?.maxTokens).toBe(16);
});

test.for([
  ["a list of texts", ["one", "two"], ["ONE", "TWO"]],
  ["token ids", [...Buffer.from("one")], ["ONE"]],
  ["lists of token ids", [[...Buffer.from("one")], [...Buffer.from("two")]], ["ONE", "TWO"]],
] as [string, string[] | number[] | number[][], string[]][])(
  "%s gives one choice per prompt",
  async ([, prompt, texts]) => {
    const { client } = await serveToy();
    const answer = await client.completions.create({ model: "toy", prompt });
    expect(answer.choices.map(({ text }) => text)).toEqual(texts);
  },
);

test("choices of several prompts with n are numbered prompt by prompt", async () => {
  const { client } = await serveToy();
  const answer = await client.completions.create({ model: "toy", prompt: ["a", "b"], n: 2 });
  expect(answer.choices.map(({ index, text }) => [index, text])).toEqual([
    [0, "A #0"],
    [1, "A #1"],
    [2, "B #0"],
    [3, "B #1"],
  ]);
  expect(answer.usage?.prompt_tokens).toBe(2);
});

test("streams of several prompts with n are told apart by their index", async () => {
  const { client } = await serveToy();
  const stream = await client.completions.create({
    model: "toy",
    prompt: ["a", "b"],
    n: 2,
    stream: true,
    stream_options: { include_usage: true },
  });
  const texts = ["", "", "", ""];
  let usage: unknown = null;
  for await (const chunk of stream) {
    for (const { index, text } of chunk.choices) texts[index] += text;
    usage = chunk.usage;
  }
  expect(texts).toEqual(["A #0", "A #1", "B #0", "B #1"]);
  expect(usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 20 });
});

test("log-probabilities have tokens, values, alternatives and offsets in characters", async () => {
  const { client } = await serveToy({ reply: () => "né!" });
  const answer = await client.completions.create({ model: "toy", prompt: "x", logprobs: 2 });
  const logprobs = answer.choices[0]?.logprobs;
  expect(logprobs?.tokens).toEqual(["n", "bytes:\\xc3", "bytes:\\xa9", "!", "<end>"]);
  expect(logprobs?.text_offset).toEqual([0, 1, 1, 2, 3]);
  expect(logprobs?.token_logprobs).toHaveLength(5);
  expect(Object.keys(logprobs?.top_logprobs?.[0] ?? {})).toEqual(["n", "o"]);
});

test("echo puts the prompt and its log-probabilities in front", async () => {
  const { client } = await serveToy({ reply: () => "lo" });
  const answer = await client.completions.create({
    model: "toy",
    prompt: "hel",
    echo: true,
    logprobs: 0,
  });
  const [choice] = answer.choices;
  expect(choice?.text).toBe("hello");
  expect(choice?.logprobs?.tokens).toEqual(["h", "e", "l", "l", "o", "<end>"]);
  expect(choice?.logprobs?.token_logprobs?.[0]).toBeNull();
  expect(choice?.logprobs?.text_offset).toEqual([0, 1, 2, 3, 4, 5]);
});

test("echo with max_tokens 0 only scores the prompt", async () => {
  const { client } = await serveToy();
  const answer = await client.completions.create({
    model: "toy",
    prompt: "abc",
    echo: true,
    logprobs: 0,
    max_tokens: 0,
  });
  expect(answer.choices[0]).toMatchObject({ text: "abc", finish_reason: "length" });
  expect(answer.choices[0]?.logprobs?.tokens).toEqual(["a", "b", "c"]);
  expect(answer.usage?.completion_tokens).toBe(0);
});

test("a streamed echo is the same text and log-probabilities as an answer at once", async () => {
  const { post } = await serveToy();
  const body = { prompt: ["abc", "de"], echo: true, logprobs: 1, n: 2 };
  const whole = await json(post("/v1/completions", body));
  const events = await readEvents(await post("/v1/completions", { ...body, stream: true }));
  for (const index of [0, 1, 2, 3]) {
    const pieces = events.flatMap((event) =>
      Object.values(event.choices ?? {}).filter((choice) => Number(choice.index) === index),
    );
    const choice = whole.choices?.[index];
    expect(pieces.map(({ text }) => String(text)).join("")).toBe(String(choice?.text));
    for (const field of ["tokens", "token_logprobs", "text_offset"]) {
      const joined = pieces.flatMap((piece) => Object.values(piece.logprobs?.[field] ?? {}));
      expect(joined).toEqual(choice?.logprobs?.[field]);
    }
  }
});

test("a prompt whose output cannot fit is refused, whichever of several it is", async () => {
  const { post } = await serveToy();
  const prompt = ["a", "b".repeat(100)];
  const answer = await post("/v1/completions", { prompt, max_tokens: 4000 });
  expect(answer.status).toBe(400);
  expect((await json(answer)).error).toMatchObject({
    code: "context_length_exceeded",
    param: "max_tokens",
    message: expect.stringMatching(/4096 tokens.* 100 for the prompt.*ask for at most 3996$/),
  });
  const cut = { prompt, max_tokens: 4000, truncate_prompt_tokens: 96 };
  expect((await post("/v1/completions", cut)).status).toBe(200);
});

test("a model without a tokenizer completes token ids and shows ids", async () => {
  const { post } = await serveToy({ hasTokenizer: false, reply: () => "ok" });
  const answer = await post("/v1/completions", { prompt: [1, 2, 3], logprobs: 0 });
  expect(await json(answer)).toMatchObject({
    choices: [
      {
        text: "",
        token_ids: [111, 107, 256],
        logprobs: { tokens: ["token_id:111", "token_id:107", "token_id:256"] },
      },
    ],
  });
});

test.for([
  ["suffix", { prompt: "a", suffix: "b" }, "suffix"],
  ["best_of above 1", { prompt: "a", best_of: 2 }, "best_of"],
  ["a negative token id", { prompt: [-1] }, "prompt"],
  ["an empty list", { prompt: [] }, "prompt"],
  ["a mixed list", { prompt: ["a", 1] }, "prompt"],
  ["no prompt", {}, "prompt"],
  ["too many alternatives", { prompt: "a", logprobs: 100 }, "logprobs"],
] as const)("%s is a 400 that names the field", async ([, body, param]) => {
  const { post } = await serveToy();
  const answer = await post("/v1/completions", body);
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.param).toBe(param);
});

test.for([
  ["guided_choice", { guided_choice: ["yes", "no"] }, { choice: ["yes", "no"] }],
  ["guided_regex", { guided_regex: "a+" }, { regex: "a+" }],
  ["guided_grammar", { guided_grammar: 'root ::= "a"' }, { grammar: 'root ::= "a"' }],
  ["guided_json", { guided_json: { type: "object" } }, { json: { type: "object" } }],
  ["structured_outputs", { structured_outputs: { regex: "b" } }, { regex: "b" }],
  ["json_object", { response_format: { type: "json_object" } }, { jsonObject: true }],
] as const)("%s reaches the engine as structured output", async ([, fields, kind]) => {
  const { post, model } = await serveToy();
  const answer = await post("/v1/completions", { prompt: "a", ...fields });
  expect(answer.status).toBe(200);
  expect(model.requests[0]?.structuredOutput).toEqual(kind);
});
