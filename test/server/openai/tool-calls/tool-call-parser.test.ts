import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AutoParser } from "../../../../src/server/openai/tool-calls/auto.ts";
import { HermesParser } from "../../../../src/server/openai/tool-calls/hermes.ts";
import { Llama3Parser } from "../../../../src/server/openai/tool-calls/llama3.ts";
import type {
  OutputPart,
  ToolCallContext,
  ToolCallParser,
} from "../../../../src/server/openai/tool-calls/tool-call-parser.ts";

const context: ToolCallContext = { toolNames: new Set(["find", "add"]), newId: () => "id" };

const PARSERS = {
  hermes: () => new HermesParser(context),
  llama: () => new Llama3Parser(context),
  auto: () => new AutoParser(context),
} satisfies Record<string, () => ToolCallParser>;

interface Output {
  content: string;
  calls: { name: string; arguments: string }[];
}

function read(parser: ToolCallParser, pieces: readonly string[]): Output {
  const output: Output = { content: "", calls: [] };
  const add = (part: OutputPart) => {
    if (part.kind === "content") output.content += part.text;
    else if (part.kind === "call") output.calls.push({ name: part.name, arguments: "" });
    else {
      const call = output.calls[part.index];
      if (call !== undefined) call.arguments += part.text;
    }
  };
  for (const piece of pieces) parser.push(piece).forEach(add);
  parser.finish().forEach(add);
  return output;
}

const call = (name: string, args: string) => ({ name, arguments: args });

describe("what each format says", () => {
  test.for([
    ["text alone", "hermes", "Just text. ", "Just text. ", []],
    ["white space alone", "hermes", "  \n", "  \n", []],
    ["a tag that does not go on", "hermes", "a <tool_ b", "a <tool_ b", []],
    ["half a tag at the end", "hermes", "a <tool_c", "a <tool_c", []],
    [
      "keys in another order",
      "hermes",
      '<tool_call>{"arguments": {"a": [1, {"b": "}"}]}, "name": "add"}</tool_call>',
      "",
      [call("add", '{"a": [1, {"b": "}"}]}')],
    ],
    [
      "arguments as text",
      "hermes",
      '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>',
      "",
      [call("add", '{"a": 1}')],
    ],
    ["no arguments", "hermes", '<tool_call>{"name": "add"}</tool_call>', "", [call("add", "{}")]],
    [
      "null arguments",
      "hermes",
      '<tool_call>{"name": "add", "arguments": null}</tool_call>',
      "",
      [call("add", "{}")],
    ],
    [
      "a missing closing tag",
      "hermes",
      '<tool_call>{"name": "add", "arguments": {}}\n<tool_call>{"name": "find"}',
      "",
      [call("add", "{}"), call("find", "{}")],
    ],
    [
      "no JSON in a tag",
      "hermes",
      "<tool_call>add it</tool_call>",
      "<tool_call>add it</tool_call>",
      [],
    ],
    ["no name", "hermes", '<tool_call>{"a": 1}', '<tool_call>{"a": 1}', []],
    ["an end in the middle", "hermes", '<tool_call>{"name": "add", "argu', "", [call("add", "{}")]],
    [
      "an end inside of arguments",
      "hermes",
      '<tool_call>{"name": "add", "arguments": {"a": "x',
      "",
      [call("add", '{"a": "x')],
    ],
    [
      "text between and after calls",
      "hermes",
      '<tool_call>{"name": "add"}</tool_call> and <tool_call>{"name": "find"}</tool_call> done ',
      " and done",
      [call("add", "{}"), call("find", "{}")],
    ],
    [
      "one object",
      "llama",
      '{"name": "add", "parameters": {"a": 1}}',
      "",
      [call("add", '{"a": 1}')],
    ],
    [
      "several with a semicolon",
      "llama",
      '<|python_tag|>{"name": "add", "parameters": {}}; {"name": "find", "parameters": {"q": ";"}}',
      "",
      [call("add", "{}"), call("find", '{"q": ";"}')],
    ],
    [
      "an unknown tool",
      "llama",
      '{"name": "x", "parameters": {}} ',
      '{"name": "x", "parameters": {}} ',
      [],
    ],
    ["an answer in JSON", "llama", '{"city": "Oslo"}', '{"city": "Oslo"}', []],
    ["text", "llama", "It is {warm}.", "It is {warm}.", []],
    [
      "Hermes by itself",
      "auto",
      'Hm. <tool_call>{"name": "add"}</tool_call>',
      "Hm.",
      [call("add", "{}")],
    ],
    ["Llama by itself", "auto", ' {"name": "add", "parameters": {}}', "", [call("add", "{}")]],
    [
      "a python tag by itself",
      "auto",
      '<|python_tag|>{"name": "add", "parameters": {}}',
      "",
      [call("add", "{}")],
    ],
    ["text by itself", "auto", "<|python", "<|python", []],
  ] as [string, keyof typeof PARSERS, string, string, Output["calls"]][])(
    "%s (%s)",
    ([, parser, text, content, calls]) => {
      expect(read(PARSERS[parser](), [text])).toEqual({ content, calls });
    },
  );
});

describe("how the text is cut does not matter", () => {
  const fragments = [
    "<tool_call>",
    "</tool_call>",
    '{"name": "add", "arguments": {"a": "<tool_call>"}}',
    '{"name": "find", "parameters": {"q": "é\\"}"}}',
    "<|python_tag|>",
    '{"name": "add"}',
    "some text",
    " \n",
    ";",
    "[",
    ",",
    "]",
    '{"a": [',
    "}",
    '"',
    "\\",
    "<tool",
  ];
  const pieces = fc.array(fc.constantFrom(...fragments), { maxLength: 10 });
  const cuts = fc.array(fc.nat(200), { maxLength: 20 });

  test.for(Object.keys(PARSERS) as (keyof typeof PARSERS)[])("%s", (name) => {
    fc.assert(
      fc.property(pieces, cuts, (parts, places) => {
        const text = parts.join("");
        const bounds = [0, ...places.filter((place) => place < text.length), text.length];
        bounds.sort((a, b) => a - b);
        const cut = bounds.slice(1).map((end, i) => text.slice(bounds[i], end));
        expect(read(PARSERS[name](), cut)).toEqual(read(PARSERS[name](), [text]));
      }),
      { seed: 7, numRuns: 2000 },
    );
  });
});
