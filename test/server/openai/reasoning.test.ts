import { describe, expect, test } from "vitest";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const chatTemplate = "{{ '<think>' }}{{ content.split('</think>')[-1] }}";
const messages = [{ role: "user" as const, content: "why?" }];
const request = { model: "toy", messages };
const reply = () => "<think>\nhm, well\n</think>\n\nBecause.";

interface ChatAnswer {
  readonly choices: readonly { readonly message: object }[];
  readonly usage: { readonly completion_tokens_details: { readonly reasoning_tokens: number } };
}

interface Reasoning {
  readonly reasoning_content?: string;
}

describe("a model that thinks", () => {
  test("its thinking is reasoning_content, and its tokens are counted", async () => {
    const { client } = await serveToy({ reply, chatTemplate });
    const { choices, usage } = await client.chat.completions.create(request);
    expect(choices[0]?.message).toMatchObject({
      content: "Because.",
      reasoning_content: "hm, well",
    });
    expect(usage?.completion_tokens_details?.reasoning_tokens).toBe(
      "<think>\nhm, well\n</think>".length,
    );
  });

  test("a stream has the same parts and counts", async () => {
    const { client } = await serveToy({ reply, chatTemplate });
    const stream = await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    });
    let content = "";
    let reasoning = "";
    let thoughts: number | undefined;
    for await (const chunk of stream) {
      const delta = chunk.choices[0]?.delta;
      // Thinking comes first, in pieces.
      if (delta !== undefined && "reasoning_content" in delta) expect(content).toBe("");
      content += delta?.content ?? "";
      reasoning += (delta as Reasoning | undefined)?.reasoning_content ?? "";
      thoughts = chunk.usage?.completion_tokens_details?.reasoning_tokens ?? thoughts;
    }
    expect({ content, reasoning }).toEqual({ content: "Because.", reasoning: "hm, well" });
    expect(thoughts).toBe("<think>\nhm, well\n</think>".length);
  });

  test("thinking that the prompt opens needs no mark", async () => {
    const { client } = await serveToy({ reply: () => "hm</think>Yes.", chatTemplate });
    const opened = [...messages, { role: "assistant" as const, content: "<think>so " }];
    const answer = await client.chat.completions.create({
      ...request,
      messages: opened,
      ...{ add_generation_prompt: false, continue_final_message: true },
    });
    expect(answer.choices[0]?.message).toMatchObject({ content: "Yes.", reasoning_content: "hm" });
  });

  test("a mark in a user's text opens nothing", async () => {
    const { client } = await serveToy({ reply: () => "Yes.", chatTemplate });
    const asked = [{ role: "user" as const, content: "what is <think>" }];
    const answer = await client.chat.completions.create({ ...request, messages: asked });
    expect(answer.choices[0]?.message.content).toBe("Yes.");
    expect(answer.choices[0]?.message).not.toHaveProperty("reasoning_content");
  });

  test("include_reasoning false leaves it out, and its tokens in", async () => {
    const { post } = await serveToy({ reply, chatTemplate });
    const response = await post("/v1/chat/completions", { ...request, include_reasoning: false });
    // JSON of our own server, whose form the expectations check.
    const { choices, usage } = (await response.json()) as ChatAnswer;
    expect(choices[0]?.message).toMatchObject({ content: "Because." });
    expect(choices[0]?.message).not.toHaveProperty("reasoning_content");
    expect(usage.completion_tokens_details.reasoning_tokens).toBeGreaterThan(0);
  });

  test("an answer that ends in its thinking has no content", async () => {
    const { client } = await serveToy({ reply: () => "<think>hm", chatTemplate });
    const answer = await client.chat.completions.create(request);
    expect(answer.choices[0]?.message).toMatchObject({ content: null, reasoning_content: "hm" });
  });

  test("calls follow thinking, and calls in it are none", async () => {
    const call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>';
    const { client } = await serveToy({
      reply: () => `<think>${call}</think>${call}`,
      chatTemplate,
    });
    const answer = await client.chat.completions.create({
      ...request,
      tools: [{ type: "function", function: { name: "f" } }],
    });
    expect(answer.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { content: null, reasoning_content: call, tool_calls: [{ type: "function" }] },
    });
    expect(answer.choices[0]?.message.tool_calls).toHaveLength(1);
  });
});

describe("the option reasoningParser", () => {
  test("none leaves the text as it is", async () => {
    const { client } = await serveToy({ reply, chatTemplate }, { reasoningParser: "none" });
    const answer = await client.chat.completions.create(request);
    expect(answer.choices[0]?.message.content).toBe(reply());
  });

  test("auto splits nothing where neither template nor vocabulary has marks", async () => {
    const { client } = await serveToy({ reply });
    const answer = await client.chat.completions.create(request);
    expect(answer.choices[0]?.message.content).toBe(reply());
  });

  test("deepseek_r1 takes what stands before an end mark for thinking", async () => {
    const { client } = await serveToy(
      { reply: () => "hm</think>Yes." },
      { reasoningParser: "deepseek_r1" },
    );
    const answer = await client.chat.completions.create(request);
    expect(answer.choices[0]?.message).toMatchObject({ content: "Yes.", reasoning_content: "hm" });
  });
});

describe("reasoning_effort", () => {
  test("none turns thinking off in the template, unless its arguments say otherwise", async () => {
    const { client, model } = await serveToy({ chatTemplate });
    await client.chat.completions.create({ ...request, reasoning_effort: "none" });
    expect(model.chats[0]?.options.templateVariables).toEqual({ enable_thinking: false });
    const body = { ...request, reasoning_effort: "none" as const };
    const given = { chat_template_kwargs: { enable_thinking: true } };
    await client.chat.completions.create({ ...body, ...given });
    expect(model.chats[1]?.options.templateVariables).toEqual({ enable_thinking: true });
    await client.chat.completions.create({ ...request, reasoning_effort: "high" });
    expect(model.chats[2]?.options.templateVariables).toBeUndefined();
  });
});
