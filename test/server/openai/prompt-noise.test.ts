import { describe, expect, test } from "vitest";
import { beginsWithNoise, moveNoise } from "../../../src/server/openai/prompt-noise.ts";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const header = (check: string) =>
  `x-anthropic-billing-header: cc_version=2.1.15.f30; cc_entrypoint=cli; cch=${check};`;
const system = (content: string) => ({ role: "system" as const, content });
const user = (content: string) => ({ role: "user" as const, content });

describe("known noise", () => {
  test("a header before the system prompt comes behind the last message, as it was", () => {
    const { messages, moved } = moveNoise([
      system(`${header("ab12c")}\n\nYou are an agent.`),
      user("hello"),
    ]);
    expect(messages).toEqual([system("You are an agent."), user(`hello\n${header("ab12c")}`)]);
    expect(moved).toEqual(["x-anthropic-billing-header"]);
  });

  test("a block of its own goes, and its parts stay parts", () => {
    const part = (text: string) => ({ type: "text" as const, text });
    const { messages } = moveNoise([
      { role: "system", content: [part(header("ab12c")), part("You are an agent.")] },
      { role: "user", content: [part("hello"), part("there")] },
    ]);
    expect(messages).toEqual([
      { role: "system", content: [part("You are an agent.")] },
      { role: "user", content: [part("hello"), part("there"), part(header("ab12c"))] },
    ]);
  });

  test("behind what a tool said last; never behind words of the assistant", () => {
    const conversation = [
      system(header("ab12c")),
      user("hello"),
      { role: "tool" as const, content: "4°", tool_call_id: "a" },
      { role: "assistant" as const, content: "It" },
    ];
    const { messages } = moveNoise(conversation);
    expect(messages.map(({ content }) => content)).toEqual([
      "hello",
      `4°\n${header("ab12c")}`,
      "It",
    ]);
  });

  test.each([
    [
      "a system prompt that speaks of the header",
      system("Never print x-anthropic-billing-header: a=b;"),
    ],
    ["a header of a user's", user(header("ab12c"))],
    ["another header", system("x-request-id: cch=1;\nYou are an agent.")],
    ["a header without values", system("x-anthropic-billing-header: \nYou are an agent.")],
  ])("%s stays where it is", (_name, first) => {
    const messages = [first, user("hello")];
    expect(moveNoise(messages)).toEqual({ messages, moved: [] });
    expect(beginsWithNoise(messages)).toBe(false);
  });

  test.each(["", "\n\nYou are an agent."])("its last value may lack a semicolon: %j", (rest) => {
    const { messages } = moveNoise([system(`${header("ab12c").slice(0, -1)}${rest}`), user("hi")]);
    const texts = messages.map(({ content }) => content);
    expect(texts.at(-1)).toBe(`hi\n${header("ab12c").slice(0, -1)}`);
    expect(texts.slice(0, -1)).toEqual(rest === "" ? [] : ["You are an agent."]);
  });

  test("text right behind the header's last semicolon is the system prompt's", () => {
    const { messages } = moveNoise([system(`${header("ab12c")}You are = an agent;`), user("hi")]);
    expect(messages[0]).toEqual(system("You are = an agent;"));
  });

  test("a long text that only begins like it takes no time", () => {
    const messages = [system(`x-anthropic-billing-header: ${"a=b;".repeat(500_000)}`), user("hi")];
    const begunMs = performance.now();
    const { moved } = moveNoise(messages);
    expect(performance.now() - begunMs).toBeLessThan(50);
    expect(moved).toHaveLength(1);
  });
});

describe.each([
  ["/v1/chat/completions", {}],
  ["/v1/messages", {}],
])("%s", (path, more) => {
  const body = (check: string) => {
    const rest = { model: "toy", max_tokens: 4, ...more };
    const instructions = `${header(check)}\nYou are an agent. ${"Be careful. ".repeat(20)}`;
    return path === "/v1/messages"
      ? { ...rest, system: instructions, messages: [user("hello")] }
      : { ...rest, messages: [system(instructions), user("hello")] };
  };

  test("usage names what was moved, and the next request hits", async () => {
    const { post, model } = await serveToy();
    const first = await json(post(path, body("ab12c")));
    expect(first.usage?.perigee).toEqual({ moved_noise: ["x-anthropic-billing-header"] });
    await post(path, body("ffffe"));
    expect(JSON.stringify(model.chats[1]?.messages)).toContain("cch=ffffe");
    const { cachedPromptTokens = 0, promptTokens } = model.stats();
    expect(cachedPromptTokens).toBeGreaterThan(0.3 * promptTokens);
  });

  test("a switch leaves prompts as they were sent", async () => {
    const { post, model } = await serveToy({}, { moveKnownNoise: false });
    const first = await json(post(path, body("ab12c")));
    expect(first.usage?.perigee).toBeUndefined();
    await post(path, body("ffffe"));
    expect(String(model.chats[1]?.messages[0]?.content)).toMatch(/^x-anthropic-billing-header/);
    expect(model.stats().cachedPromptTokens).toBeLessThan(100);
  });
});
