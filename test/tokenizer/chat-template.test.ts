import { describe, expect, test } from "vitest";
import { ChatTemplate, missingTemplate, pickTemplate } from "#tokenizer";

const chatml = `{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}`;

const refused = (part: string) =>
  expect.objectContaining({
    code: "INVALID_ARGUMENT",
    message: expect.stringContaining(part),
  });

describe("ChatTemplate", () => {
  const template = new ChatTemplate(chatml);
  const user = { role: "user", content: "Hi" };

  test("renders a conversation and opens the assistant's turn", () => {
    expect(template.render([user])).toBe("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    expect(template.render([user], { addGenerationPrompt: false })).toBe(
      "<|im_start|>user\nHi<|im_end|>\n",
    );
  });

  test("has special tokens, tools and variables in scope", () => {
    const source =
      "{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{{ enable_thinking }}{{ eos_token }}";
    const scope = new ChatTemplate(source, { namedTokens: { bos: "<s>", eos: "</s>" } });
    const tools = [{ type: "function" }];
    expect(scope.render([], { tools, variables: { enable_thinking: false } })).toBe(
      '<s>[{"type": "function"}]false</s>',
    );
    expect(scope.render([], { tools: [] })).not.toContain("[");
  });

  test("leaves the final message open to be continued", () => {
    const messages = [user, { role: "assistant", content: "One, two " }];
    expect(template.render(messages, { continueFinalMessage: true })).toBe(
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nOne, two ",
    );
    const trims = new ChatTemplate("{% for m in messages %}[{{ m.content | trim }}]{% endfor %}");
    expect(trims.render(messages, { continueFinalMessage: true })).toBe("[Hi][One, two");
  });

  test("says why a final message cannot be continued", () => {
    const options = { continueFinalMessage: true };
    expect(() => template.render([], options)).toThrow(refused("there are 0 messages"));
    expect(() => template.render([user], { ...options, addGenerationPrompt: true })).toThrow(
      refused("addGenerationPrompt must be false"),
    );
    const silent = new ChatTemplate("nothing");
    expect(() => silent.render([user], options)).toThrow(refused("leaves it out"));
  });

  test("joins text parts for a template that wants strings", () => {
    const content = [
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ];
    expect(template.render([{ role: "user", content }])).toContain("user\na\nb<|im_end|>");
  });

  test.each([
    "{% for m in messages %}{% for part in m.content %}({{ part.text }}){% endfor %}{% endfor %}",
    "{% for m in messages %}{% for part in m['content'] %}({{ part['text'] }}){% endfor %}{% endfor %}",
    "{% for m in messages %}{% set c = m.content %}{% for p in c %}({{ p.text }}){% endfor %}{% endfor %}",
  ])("hands parts to a template that loops over them: %s", (source) => {
    const parts = new ChatTemplate(source);
    const content = [{ type: "text", text: "a" }, "b"];
    expect(parts.render([{ role: "user", content }])).toBe("(a)(b)");
  });

  test("refuses images, and names the message", () => {
    const content = [{ type: "image_url", image_url: { url: "data:" } }];
    const render = () => template.render([user, { role: "user", content }]);
    expect(render).toThrow(refused("Cannot render message 1: content parts must be text"));
    expect(render).toThrow(expect.objectContaining({ param: "messages[1].content" }));
  });

  test("an assistant's message may have no content", () => {
    const text = template.render([{ role: "assistant", content: null, tool_calls: [] }]);
    expect(text).toContain("assistant\n<|im_end|>");
  });

  test("a tool call's arguments are objects, however they came", () => {
    const source =
      "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }};{% endfor %}{% endfor %}";
    const calls = ['{"city": "Oslo"}', { city: "Oslo" }, "", "no json"];
    const message = {
      role: "assistant",
      tool_calls: calls.map((args) => ({ type: "function", function: { arguments: args } })),
    };
    const text = new ChatTemplate(source).render([message]);
    expect(text).toBe('{"city": "Oslo"};{"city": "Oslo"};{};"no json";');
  });

  test("a template that raises blames the request", () => {
    const strict = new ChatTemplate("{{ raise_exception('roles must alternate') }}");
    expect(() => strict.render([user])).toThrow(refused("roles must alternate"));
  });

  test("a template that cannot be parsed is its author's error", () => {
    const broken = "{% for %}";
    expect(() => new ChatTemplate(broken)).toThrow(
      expect.objectContaining({ code: "TOKENIZER_INVALID" }),
    );
    expect(() => new ChatTemplate(broken, { source: "request" })).toThrow(refused("Jinja"));
  });
});

describe("pickTemplate", () => {
  const named = [
    { name: "default", template: "d" },
    { name: "tool_use", template: "t" },
  ];

  test("takes the only one, or the one for tools where there are tools", () => {
    expect(pickTemplate("only", true)).toBe("only");
    expect(pickTemplate(named, true)).toBe("t");
    expect(pickTemplate(named, false)).toBe("d");
    expect(pickTemplate(undefined, false)).toBeNull();
  });
});

test("a model without a template says how to give one", () => {
  expect(missingTemplate("tiny").message).toContain("(chatTemplate, --chat-template FILE)");
});
