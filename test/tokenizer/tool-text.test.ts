/** Tools reach the model, whatever its template knows of them. */
import { describe, expect, test } from "vitest";
import { ChatTemplate, type TemplateMessage } from "#tokenizer";
// Not at the tokenizer's front door: threads use it.
import { renderWithTools } from "../../src/tokenizer/tool-text.ts";

const turns = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
const noSystem = `{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}${turns}`;
/** Gemma's rule: user and assistant take turns. */
const alternating =
  "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}" +
  "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}";
const showing =
  "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}" +
  "{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}{% endfor %}";
const definitionsOnly = `{% if tools %}{{ tools | tojson }}{% endif %}${turns}`;

const tool = { type: "function", function: { name: "look_up", parameters: { type: "object" } } };
const question = { role: "user", content: "What is a mole?" };
const call = {
  role: "assistant",
  content: "Let me see.",
  tool_calls: [{ id: "1", type: "function", function: { name: "look_up", arguments: "{}" } }],
};
const result = (content: string) => ({ role: "tool", tool_call_id: "1", content });
const callText = '<tool_call>\n{"name":"look_up","arguments":{}}\n</tool_call>';

function render(source: string, messages: TemplateMessage[], tools: unknown[] = []) {
  const options = tools.length > 0 ? { tools } : {};
  return renderWithTools(new ChatTemplate(source), messages, options);
}

describe("tools of a conversation", () => {
  test("are the template's business where it shows them", () => {
    const { text, toolsAsText } = render(showing, [question, call, result("a mammal")], [tool]);
    expect(toolsAsText).toBe(false);
    expect(text).toContain(
      '[assistant]Let me see.{"name": "look_up", "arguments": {}}[tool]a mammal',
    );
  });

  test("become a block of the system message, and turns, where it does not", () => {
    const system = { role: "system", content: "Be brief." };
    const history = [system, question, call, result("a mammal"), result("a spy")];
    const { text, toolsAsText } = render(turns, history, [tool]);
    expect(toolsAsText).toBe(true);
    expect(text).toMatch(/^\[system\]Be brief\.\n\n# Tools\n/);
    expect(text).toContain(JSON.stringify(tool));
    expect(text).toContain(`[user]What is a mole?[assistant]Let me see.\n\n${callText}[user]`);
    expect(text).toMatch(
      /<tool_response>\na mammal\n<\/tool_response>\n\n<tool_response>\na spy\n/,
    );
  });

  test.each([
    ["no system message", noSystem],
    ["turns that alternate", alternating],
  ])("stand in the first turn of a template with %s", (_name, source) => {
    const { text } = render(source, [question, call, result("a mammal")], [tool]);
    expect(text).toMatch(/^\[user\]# Tools\n.*\n\nWhat is a mole\?\[assistant\]/s);
    expect(text).toContain("a mammal");
  });

  test("a result and the user's next words are one turn", () => {
    const more = { role: "user", content: "And a vole?" };
    const { text } = render(alternating, [question, call, result("a mammal"), more], [tool]);
    expect(text).toMatch(/<\/tool_response>\n\nAnd a vole\?$/);
  });

  test("calls and results are shown as text where a template knows definitions alone", () => {
    const definitions = render(definitionsOnly, [question], [tool]);
    expect(definitions).toMatchObject({ toolsAsText: false });
    const history = render(definitionsOnly, [question, call, result("a mammal")]);
    expect(history.toolsAsText).toBe(true);
    expect(history.text).toContain(callText);
  });

  test("of a conversation without any cost nothing and change nothing", () => {
    expect(render(turns, [question])).toEqual({
      text: "[user]What is a mole?",
      toolsAsText: false,
    });
  });

  test("a conversation that the template refuses for another reason is still refused", () => {
    const source = `{{ raise_exception('never') }}${showing}`;
    expect(() => render(source, [question, call], [tool])).toThrow("never");
  });
});

test("arguments that are no JSON are text, and a field of an object where one is wanted", () => {
  const broken = (text: unknown) => ({
    role: "assistant",
    content: "",
    tool_calls: [{ type: "function", function: { name: "f", arguments: text } }],
  });
  const walking =
    "{% for m in messages %}{% for c in m.tool_calls or [] %}" +
    "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}{% endfor %}{% endfor %}";
  const template = new ChatTemplate(walking);
  expect(template.render([broken('{"a": 1}')])).toBe("a=1;");
  expect(template.render([broken('{"a": ')])).toBe('arguments={"a": ;');
  expect(new ChatTemplate(showing).render([broken('{"a": ')])).toContain(
    '"arguments": "{\\"a\\": "',
  );
});
