import { describe, expect, test } from "vitest";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const messages = [{ role: "user" as const, content: "hello there" }];

describe("chat completions through the official client", () => {
  test("an answer has OpenAI's shape, with usage and a finish reason", async () => {
    const { client } = await serveToy();
    const answer = await client.chat.completions.create({ model: "toy", messages });
    expect(answer.id).toMatch(/^chatcmpl-/);
    expect(answer.object).toBe("chat.completion");
    expect(answer.model).toBe("toy");
    expect(answer.choices).toHaveLength(1);
    expect(answer.choices[0]).toMatchObject({
      index: 0,
      message: { role: "assistant", content: "HELLO THERE", refusal: null },
      finish_reason: "stop",
      logprobs: null,
    });
    expect(answer.usage).toEqual({
      prompt_tokens: "user: hello there\nassistant:".length,
      completion_tokens: "HELLO THERE".length + 1,
      total_tokens: "user: hello there\nassistant:".length + "HELLO THERE".length + 1,
      prompt_tokens_details: { cached_tokens: 0 },
    });
  });

  test("the second request with the same prompt reports its cached tokens", async () => {
    const { client } = await serveToy();
    await client.chat.completions.create({ model: "toy", messages });
    const second = await client.chat.completions.create({ model: "toy", messages });
    expect(second.usage?.prompt_tokens_details?.cached_tokens).toBe(16);
  });

  test("n gives that many choices, in order", async () => {
    const { client } = await serveToy();
    const answer = await client.chat.completions.create({ model: "toy", messages, n: 3 });
    expect(answer.choices.map(({ index, message }) => [index, message.content])).toEqual([
      [0, "HELLO THERE #0"],
      [1, "HELLO THERE #1"],
      [2, "HELLO THERE #2"],
    ]);
  });

  test("max_completion_tokens wins over max_tokens and ends with length", async () => {
    const { client } = await serveToy();
    const answer = await client.chat.completions.create({
      model: "toy",
      messages,
      max_tokens: 9,
      max_completion_tokens: 5,
    });
    expect(answer.choices[0]?.message.content).toBe("HELLO");
    expect(answer.choices[0]?.finish_reason).toBe("length");
  });

  test("a stop string is named as the stop reason", async () => {
    const { post } = await serveToy();
    const answer = await post("/v1/chat/completions", { messages, stop: [" "] });
    expect(await json(answer)).toMatchObject({
      choices: [{ message: { content: "HELLO" }, finish_reason: "stop", stop_reason: " " }],
    });
  });

  test("logprobs carry tokens, bytes and alternatives", async () => {
    const { client } = await serveToy({ reply: () => "é" });
    const answer = await client.chat.completions.create({
      model: "toy",
      messages,
      logprobs: true,
      top_logprobs: 2,
    });
    const content = answer.choices[0]?.logprobs?.content ?? [];
    expect(content.map(({ token, bytes }) => [token, bytes])).toEqual([
      ["bytes:\\xc3", [0xc3]],
      ["bytes:\\xa9", [0xa9]],
      ["<end>", [...new TextEncoder().encode("<end>")]],
    ]);
    expect(content[0]?.top_logprobs).toHaveLength(2);
    expect(content[0]?.logprob).toBeCloseTo(-Math.LN2);
  });

  test("a JSON schema reaches the engine and its instance comes back", async () => {
    const { client, model } = await serveToy();
    const schema = {
      type: "object",
      properties: { city: { type: "string" }, age: { type: "integer" } },
      required: ["city", "age"],
    };
    const answer = await client.chat.completions.create({
      model: "toy",
      messages,
      response_format: { type: "json_schema", json_schema: { name: "person", schema } },
    });
    expect(JSON.parse(answer.choices[0]?.message.content ?? "")).toEqual({ city: "word", age: 7 });
    expect(model.requests[0]?.structuredOutput).toEqual({ json: schema });
  });

  test("every sampling field arrives under the engine's name", async () => {
    const { post, model } = await serveToy();
    const answer = await post("/v1/chat/completions", {
      messages,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      min_p: 0.1,
      repetition_penalty: 1.1,
      presence_penalty: 0.2,
      frequency_penalty: 0.3,
      seed: 42,
      stop: "x",
      stop_token_ids: [7],
      include_stop_str_in_output: true,
      ignore_eos: true,
      min_tokens: 1,
      max_tokens: 20,
      logit_bias: { 5: 1 },
      allowed_token_ids: [1, 2],
      bad_words: ["no"],
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      cache_salt: "salt",
      priority: 3,
      user: "someone",
      store: true,
      metadata: {},
      service_tier: "auto",
      reasoning_effort: "low",
      use_beam_search: false,
    });
    expect(answer.status).toBe(200);
    expect(model.requests[0]).toMatchObject({
      temperature: 0.5,
      topP: 0.9,
      topK: 5,
      minP: 0.1,
      repetitionPenalty: 1.1,
      presencePenalty: 0.2,
      frequencyPenalty: 0.3,
      seed: 42,
      stop: "x",
      stopTokenIds: [7],
      includeStopStrInOutput: true,
      ignoreEos: true,
      minTokens: 1,
      maxTokens: 20,
      logitBias: { 5: 1 },
      allowedTokenIds: [1, 2],
      badWords: ["no"],
      skipSpecialTokens: false,
      spacesBetweenSpecialTokens: false,
      cacheSalt: "salt",
      priority: 3,
    });
  });

  test("the server's sampling defaults apply where a request says nothing", async () => {
    const { client, model } = await serveToy(
      {},
      { defaultSampling: { temperature: 0.3, topK: 9 } },
    );
    await client.chat.completions.create({ model: "toy", messages, temperature: 0.7 });
    expect(model.requests[0]).toMatchObject({ temperature: 0.7, topK: 9, maxTokens: null });
  });

  test("the template gets tools, variables and calls with parsed arguments", async () => {
    const { post, model } = await serveToy();
    const tools = [{ type: "function", function: { name: "look" } }];
    await post("/v1/chat/completions", {
      messages: [
        { role: "developer", content: "be brief" },
        { role: "user", content: [{ type: "text", text: "hi" }] },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "a", type: "function", function: { name: "look", arguments: '{"at":"sky"}' } },
          ],
        },
        { role: "tool", tool_call_id: "a", content: "blue" },
      ],
      tools,
      chat_template_kwargs: { enable_thinking: false },
    });
    const [chat] = model.chats;
    expect(chat?.options.tools).toEqual(tools);
    expect(chat?.options.templateVariables).toEqual({ enable_thinking: false });
    expect(chat?.messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool"]);
    expect(chat?.messages[2]).toMatchObject({
      content: "",
      tool_calls: [{ function: { name: "look", arguments: { at: "sky" } } }],
    });
  });

  test("prompt log-probabilities and token ids come when asked for", async () => {
    const { post } = await serveToy();
    const answer = await post("/v1/chat/completions", {
      messages,
      prompt_logprobs: 1,
      return_token_ids: true,
      max_tokens: 2,
    });
    const body = await json(answer);
    expect(body.prompt_logprobs?.[0]).toBeNull();
    expect(body.prompt_logprobs?.[1]?.["115"]).toMatchObject({ rank: 1, decoded_token: "s" });
    expect(body.prompt_token_ids).toHaveLength(28);
    expect(body.choices?.[0]?.token_ids).toEqual([72, 69]);
  });

  test("truncate_prompt_tokens keeps the prompt's end", async () => {
    const { post } = await serveToy();
    const body = { messages, truncate_prompt_tokens: 4, return_token_ids: true };
    const answer = await json(post("/v1/chat/completions", body));
    expect(answer.prompt_token_ids).toEqual([..."ant:"].map((char) => char.charCodeAt(0)));
  });

  test("continue_final_message with echo returns the whole message", async () => {
    const { post } = await serveToy({ reply: () => " world" });
    const answer = await post("/v1/chat/completions", {
      messages: [...messages, { role: "assistant", content: "Hello" }],
      continue_final_message: true,
      echo: true,
    });
    expect(await json(answer)).toMatchObject({
      choices: [{ message: { content: "Hello world" } }],
    });
  });
});

describe("chat requests that are refused", () => {
  const cases: [name: string, body: object, param: string][] = [
    ["an unknown field", { messages, temprature: 1 }, "temprature"],
    ["a field of a later version", { messages, prompt_embeds: {} }, "prompt_embeds"],
    [
      "a retention config with a wrong range",
      { messages, kv_cache_retention_config: { token_range_retention_configs: [{}] } },
      "kv_cache_retention_config.token_range_retention_configs[0].token_start",
    ],
    ["no messages", { messages: [] }, "messages"],
    ["missing messages", {}, "messages"],
    ["a message without a role", { messages: [{ content: "hi" }] }, "messages[0].role"],
    ["an unknown role", { messages: [{ role: "usr", content: "hi" }] }, "messages[0].role"],
    [
      "an image",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] },
      "messages[0].content",
    ],
    ["a temperature out of range", { messages, temperature: 3 }, "temperature"],
    ["a text as temperature", { messages, temperature: "hot" }, "temperature"],
    ["top_p of 0", { messages, top_p: 0 }, "top_p"],
    ["n above 1 with greedy sampling", { messages, n: 2, temperature: 0 }, "n"],
    ["max_tokens of 0", { messages, max_tokens: 0 }, "max_tokens"],
    ["max_completion_tokens of 0", { messages, max_completion_tokens: 0 }, "max_completion_tokens"],
    ["top_logprobs without logprobs", { messages, top_logprobs: 2 }, "top_logprobs"],
    ["too many alternatives", { messages, logprobs: true, top_logprobs: 21 }, "top_logprobs"],
    ["a tool choice without tools", { messages, tool_choice: "required" }, "tool_choice"],
    ["a request's own template", { messages, chat_template: "x" }, "chat_template"],
    ["deprecated functions", { messages, functions: [] }, "functions"],
    [
      "two structures",
      { messages, guided_regex: "a", response_format: { type: "json_object" } },
      "guided_regex",
    ],
  ];

  test.for(cases)("%s is a 400 that names the field", async ([, body, param]) => {
    const { post } = await serveToy();
    const answer = await post("/v1/chat/completions", body);
    expect(answer.status).toBe(400);
    const { error } = await json(answer);
    expect(error).toMatchObject({ type: "invalid_request_error", code: "invalid_argument" });
    expect(error?.param).toContain(param);
    expect(error?.message).toMatch(/^Cannot /);
  });

  const wordings: [body: object, message: string][] = [
    [{ temperature: 9 }, "temperature: must be at most 2, current value is 9"],
    [{ temperature: "hot" }, 'temperature: must be a number, current value is "hot"'],
    [{ top_p: 0 }, "top_p: must be more than 0, current value is 0"],
    [{ n: 1.5 }, "n: must be an integer, current value is 1.5"],
    [{ n: 2, temperature: 0 }, "n: must be 1 with greedy sampling (temperature 0), current value"],
    [
      { min_tokens: 5, max_tokens: 2 },
      "min_tokens: must be at most max_tokens, current value is 5",
    ],
    [{ stop: ["a", ""] }, 'stop[1]: must not be empty, current value is ""'],
    [{ logit_bias: { a: 1 } }, "logit_bias.a: key must be a token id"],
    [{ guided_choice: [] }, "guided_choice: must not be empty, current value is []"],
    [{ structured_outputs: { regex: "" } }, "structured_outputs.regex: must not be empty"],
    [
      { messages: [{ role: "usr", content: "hi" }] },
      "messages[0].role: must be system, developer, user, assistant, tool or function, " +
        'current value is "usr"',
    ],
    [{ messages: 5 }, "messages: must be a list, current value is 5"],
    [{ temprature: 1 }, "temprature: is not a known field; did you mean temperature?"],
    [{ maxTokens: 1 }, "maxTokens: is not a known field; did you mean max_tokens?"],
    [{ zebra: 1 }, "zebra: is not a known field; leave it out"],
  ];

  test.for(wordings)("%j is refused with what is wanted and what came", async ([body, message]) => {
    const { post } = await serveToy();
    const answer = await post("/v1/chat/completions", { messages, ...body });
    expect((await json(answer)).error?.message).toContain(`Cannot use ${message}`);
  });

  test.for(["max_tokens", "max_completion_tokens"])(
    "%s beyond the context's room is a 400 with all three numbers",
    async (field) => {
      const { post } = await serveToy();
      const answer = await post("/v1/chat/completions", { messages, [field]: 4090 });
      expect(answer.status).toBe(400);
      const { error } = await json(answer);
      expect(error).toMatchObject({ code: "context_length_exceeded", param: field });
      const promptTokens = "user: hello there\nassistant:".length;
      expect(error?.message).toContain(`${promptTokens} for the prompt and 4090 for ${field}`);
      expect(error?.message).toContain("maximum context length of 4096 tokens");
      const fits = { messages, [field]: 4096 - promptTokens };
      expect((await post("/v1/chat/completions", fits)).status).toBe(200);
    },
  );

  test("another model's name is a 404 with vLLM's message and the served names", async () => {
    const { post } = await serveToy();
    const answer = await post("/v1/chat/completions", { model: "gpt-9", messages });
    expect(answer.status).toBe(404);
    expect(await json(answer)).toEqual({
      error: {
        message: "The model `gpt-9` does not exist. This server has toy.",
        type: "invalid_request_error",
        param: "model",
        code: "model_not_found",
      },
    });
  });

  test("a prompt that cannot fit is a 400 with both numbers", async () => {
    const { post } = await serveToy();
    const long = [{ role: "user", content: "x".repeat(5000) }];
    const answer = await post("/v1/chat/completions", { messages: long });
    expect(answer.status).toBe(400);
    const { error } = await json(answer);
    expect(error?.code).toBe("context_length_exceeded");
    expect(error?.message).toMatch(/4096.*5017/);
  });

  test("a full queue is a 429 with Retry-After", async () => {
    const { post } = await serveToy({ runningMax: 0 });
    const answer = await post("/v1/chat/completions", { messages });
    expect(answer.status).toBe(429);
    expect(answer.headers.get("retry-after")).toBe("1");
  });

  test("a failed step is a 500 that hides internals, and the server goes on", async () => {
    const { post, get } = await serveToy({ failAfterTokens: 2 });
    const answer = await post("/v1/chat/completions", { messages });
    expect(answer.status).toBe(500);
    const { error } = await json(answer);
    expect(error).toMatchObject({ type: "server_error", code: "engine_step_failed" });
    expect(error?.message).not.toContain("secret");
    expect((await get("/health")).status).toBe(200);
  });

  test("a dead engine is a 503 for requests and for health", async () => {
    const { post, get, model } = await serveToy();
    model.die("out of luck");
    expect((await post("/v1/chat/completions", { messages })).status).toBe(503);
    const health = await get("/health");
    expect(health.status).toBe(503);
    expect((await json(health)).error?.message).toContain("out of luck");
  });
});
