import { describe, expect, test } from "vitest";
import { answerReading, callFormat, callFormatOf } from "#chat";
import { ChatTemplate } from "#tokenizer";
import { chatTemplates } from "../support/real-templates.ts";

describe("the format of calls that a template shows", () => {
  test.for([
    ["qwen3_coder", "<tool_call>\\n<function=name>\\n<parameter=a>"],
    ["hermes", "{{ '<tool_call>\\n' }}"],
    ["smollm", "<tool_call>[{...}]</tool_call>"],
    ["mistral", "{{ '[TOOL_CALLS] [' }}"],
    ["mistral_args", "{{ '[TOOL_CALLS]' + name + '[ARGS]' }}"],
    ["phi4_mini_json", "<|tool_call|>[{...}]<|/tool_call|>"],
    ["llama3_json", "{{ '<|python_tag|>' }}"],
    ["pythonic", "[func_name1(params_name1=params_value1)]"],
    ["gemma", "```tool_code\\n```"],
    [null, "{{ messages[0].content }}"],
  ] as const)("%s", ([format, template]) => {
    expect(callFormatOf(template)).toBe(format);
  });
});

const real = chatTemplates();

describe.skipIf(real === null)(
  `real chat templates${real === null ? " (needs test/peers/clients.sh)" : ""}`,
  () => {
    test.for([
      [/qwen3?-?coder/i, "qwen3_coder"],
      [/Qwen-Qwen3-0\.6B|Qwen-Qwen2\.5-7B-Instruct|Qwen-QwQ-32B/, "hermes"],
      [/NousResearch-Hermes-(2-Pro|3)-Llama/, "hermes"],
      [/meta-llama-Llama-3\.[123]/, "llama3_json"],
      [/Mistral-Nemo/, "mistral"],
    ] as const)("%s is %s", ([name, format]) => {
      const found = (real ?? []).filter((template) => name.test(template.name));
      expect(found.length).toBeGreaterThan(0);
      for (const { text } of found) expect(callFormatOf(text)).toBe(format);
    });
  },
);

const id = "abcdef012";
const tools = [
  {
    type: "function",
    function: {
      name: "find_it",
      description: "Finds it.",
      parameters: {
        type: "object",
        properties: {
          q: { type: "string", description: "What." },
          limit: { type: "integer", description: "How many." },
        },
        required: ["q"],
      },
    },
  },
];
const asked = { role: "user", content: "Find it." };
const called = {
  role: "assistant",
  content: "",
  tool_calls: [
    {
      ...{ id, type: "function" },
      function: { name: "find_it", arguments: { q: 'a "b"\n<c>', limit: 7 } },
    },
  ],
};

describe.skipIf(real === null)("what real templates render", () => {
  test.for([
    ...["Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "Qwen3-Coder", "Qwen3.5-4B"],
    ...["NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "meta-llama-Llama-3.1-8B-Instruct"],
    ...["meta-llama-Llama-3.2-3B-Instruct", "meta-llama-Llama-3.3-70B-Instruct"],
    ...["mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Small-3.2-24B-Instruct-2506"],
    ...["unsloth-mistral-Devstral-Small-2507", "mistralai-Ministral-3-14B-Reasoning-2512"],
    "ibm-granite-granite-4.0",
  ])("a call of %s is read by the format that its template shows", (name) => {
    const text = (real ?? []).find((template) => template.name === name)?.text ?? "";
    const namedTokens = { bos: "<s>", eos: "</s>" };
    const template = new ChatTemplate(text, { namedTokens });
    const prompt = template.render([asked], { tools });
    const whole = template.render([asked, called], { tools, addGenerationPrompt: false });
    // Some templates open more of a turn for the model than they keep of it.
    let common = 0;
    while (common < prompt.length && prompt[common] === whole[common]) common++;
    const format = callFormat(callFormatOf(text) ?? "auto");
    const parser = format.createParser({
      tools: new Map(tools.map(({ function: known }) => [known.name, known.parameters])),
      newId: () => id,
    });
    const parts = [...parser.push(whole.slice(common)), ...parser.finish()];
    expect(parts.filter(({ kind }) => kind === "call")).toMatchObject([{ name: "find_it" }]);
    const given = parts.map((part) => (part.kind === "arguments" ? part.text : "")).join("");
    expect(JSON.parse(given)).toEqual(called.tool_calls[0]?.function.arguments);
  });

  test("a template that opens the thinking has its mark at the prompt's end", () => {
    const opening = ["deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "Qwen-QwQ-32B"];
    for (const name of opening) {
      const text = (real ?? []).find((template) => template.name === name)?.text ?? "";
      const variables = { enable_thinking: true };
      const prompt = new ChatTemplate(text).render([asked], { variables });
      const codec = {
        decode: (ids: readonly number[]) => String.fromCharCode(...ids),
        tokenBytes: (code: number) => Uint8Array.of(code),
      };
      const reading = answerReading({
        ...{ codec, template: text, setting: "auto", continued: null, contextTokensMax: 100 },
        promptTokenIds: [...prompt].map((char) => char.charCodeAt(0)),
        ...{ tools: { createParser: null, marks: [] }, isConstrained: false },
      });
      expect(reading.createReader().push("hm</think>Yes.", [1], true)).toEqual([
        { kind: "reasoning", text: "hm" },
        { kind: "content", text: "Yes." },
      ]);
    }
  });
});
