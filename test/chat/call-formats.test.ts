import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  CALL_FORMATS,
  type CallContext,
  type CallFormatName,
  callFormat,
  type OutputParser,
  type OutputPart,
} from "#chat";

const find = {
  type: "object",
  properties: { q: { type: "string" }, limit: { type: "integer" }, tags: { type: "array" } },
};
const context: CallContext = {
  tools: new Map<string, Readonly<Record<string, unknown>> | null>([
    ["find", find],
    ["add", null],
  ]),
  newId: () => "id",
};

interface Output {
  content: string;
  calls: { name: string; arguments: string }[];
}

function read(parser: OutputParser, pieces: readonly string[]): Output {
  const output: Output = { content: "", calls: [] };
  const add = (part: OutputPart) => {
    if (part.kind === "content") output.content += part.text;
    else if (part.kind === "reasoning") throw new Error("Nothing here thinks");
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
      "llama3_json",
      '{"name": "add", "parameters": {"a": 1}}',
      "",
      [call("add", '{"a": 1}')],
    ],
    [
      "several with a semicolon",
      "llama3_json",
      '<|python_tag|>{"name": "add", "parameters": {}}; {"name": "find", "parameters": {"q": ";"}}',
      "",
      [call("add", "{}"), call("find", '{"q": ";"}')],
    ],
    [
      "an unknown tool",
      "llama3_json",
      '{"name": "x", "parameters": {}} ',
      '{"name": "x", "parameters": {}} ',
      [],
    ],
    ["an answer in JSON", "llama3_json", '{"city": "Oslo"}', '{"city": "Oslo"}', []],
    ["text", "llama3_json", "It is {warm}.", "It is {warm}.", []],
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
    [
      "a list in a tag",
      "smollm",
      '<tool_call>[{"name": "add", "arguments": {}}, {"name": "find", "arguments": {"q": "]"}}]</tool_call>',
      "",
      [call("add", "{}"), call("find", '{"q": "]"}')],
    ],
    [
      "a list without its end",
      "hermes",
      'a <tool_call>[{"name": "add", "arguments": {}}',
      "a",
      [call("add", "{}")],
    ],
    [
      "a list of no calls",
      "hermes",
      "<tool_call>[1, 2]</tool_call>",
      "<tool_call>[1, 2]</tool_call>",
      [],
    ],
    [
      "parameters as markup",
      "qwen3_coder",
      'Hm.\n<tool_call>\n<function=find>\n<parameter=q>\na "b"\n<c>\n</parameter>\n' +
        "<parameter=limit>\n7\n</parameter>\n<parameter=tags>\n[1, 'x']\n</parameter>\n" +
        "</function>\n</tool_call>",
      "Hm.",
      [call("find", '{"q": "a \\"b\\"\\n<c>", "limit": 7, "tags": [1, "x"]}')],
    ],
    [
      "markup without parameters, twice",
      "qwen3_coder",
      "<tool_call>\n<function=add>\n</function>\n</tool_call>\n<tool_call><function=add></function></tool_call>",
      "",
      [call("add", "{}"), call("add", "{}")],
    ],
    [
      "markup without its tag",
      "qwen3_coder",
      "<function=find>\n<parameter=q>\nx\n</parameter>\n</function>\n</tool_call>",
      "",
      [call("find", '{"q": "x"}')],
    ],
    ["markup of an unknown name", "qwen3_coder", "<function=f>(x)", "<function=f>(x)", []],
    [
      "markup that breaks off in a text",
      "qwen3_coder",
      "<tool_call>\n<function=find>\n<parameter=q>\nab\n</par",
      "",
      [call("find", '{"q": "ab\\n</par"}')],
    ],
    [
      "Llama 3.1's markup",
      "hermes",
      '<function=find>{"q": "}"}</function> done',
      " done",
      [call("find", '{"q": "}"}')],
    ],
    [
      "a method behind the python tag",
      "llama3_json",
      '<|python_tag|>find.call(q="x, y")',
      "",
      [call("find", '{"q": "x, y"}')],
    ],
    [
      "code behind the python tag",
      "llama3_json",
      "<|python_tag|>print(1)",
      "<|python_tag|>print(1)",
      [],
    ],
    [
      "Mistral's list",
      "mistral",
      'Hm. [TOOL_CALLS] [{"name": "find", "arguments": {"q": "a"}}, {"name": "add", "arguments": {}}]',
      "Hm.",
      [call("find", '{"q": "a"}'), call("add", "{}")],
    ],
    [
      "Mistral's names",
      "mistral_args",
      '[TOOL_CALLS]find[ARGS]{"q": "{"}[TOOL_CALLS]add[CALL_ID]a1b2c3d4e[ARGS]{}',
      "",
      [call("find", '{"q": "{"}'), call("add", "{}")],
    ],
    [
      "Mistral's name without arguments' mark",
      "mistral",
      '[TOOL_CALLS]find{"q": 1}',
      "",
      [call("find", '{"q": 1}')],
    ],
    ["Mistral's mark alone", "mistral", "[TOOL_CALLS] no call", "[TOOL_CALLS] no call", []],
    [
      "Phi's list",
      "phi4_mini_json",
      '<|tool_call|>[{"name": "add", "arguments": {"a": 1}}]<|/tool_call|>',
      "",
      [call("add", '{"a": 1}')],
    ],
    [
      "Python's list",
      "pythonic",
      "[find(q='it\\'s', limit=1_000, tags=[True, None, (1,), {'a': .5}]), add()]",
      "",
      [
        call("find", '{"q": "it\'s", "limit": 1000, "tags": [true, null, [1], {"a": 0.5}]}'),
        call("add", "{}"),
      ],
    ],
    [
      "Python's list between marks, and text behind",
      "pythonic",
      '<|python_start|>[find("x", 3)]<|python_end|> done',
      " done",
      [call("find", '{"q": "x", "limit": 3}')],
    ],
    ["spread arguments", "pythonic", '[find(**{"q": "x"})]', "", [call("find", '{"q": "x"}')]],
    [
      "an expression as a value",
      "pythonic",
      "[find(q=x + 1)]",
      "",
      [call("find", '{"q": "x + 1"}')],
    ],
    ["a list of numbers", "pythonic", "[1, 2]", "[1, 2]", []],
    ["an unknown function", "pythonic", "[f(a=1)]", "[f(a=1)]", []],
    [
      "Gemma's code",
      "gemma",
      'Hm.\n```tool_code\nprint(find(q="x"))\nadd()\n```',
      "Hm.",
      [call("find", '{"q": "x"}'), call("add", "{}")],
    ],
    [
      "Gemma's object in a fence",
      "gemma",
      '```json\n{"name": "find", "parameters": {"q": "x"}}\n```',
      "",
      [call("find", '{"q": "x"}')],
    ],
    [
      "an answer in a fence",
      "gemma",
      'So:\n```json\n{"name": "Ann", "age": 3}\n```\n',
      'So:\n```json\n{"name": "Ann", "age": 3}\n```\n',
      [],
    ],
    ["Mistral by itself", "auto", '[TOOL_CALLS][{"name": "add"}]', "", [call("add", "{}")]],
    ["Python by itself", "auto", "[add()]", "", [call("add", "{}")]],
    [
      "Phi by itself",
      "auto",
      '<|tool_call|>[{"name": "add"}]<|/tool_call|>',
      "",
      [call("add", "{}")],
    ],
    [
      "a note in brackets, then Hermes, by itself",
      "auto",
      '[1] <tool_call>{"name": "add"}</tool_call>',
      "[1]",
      [call("add", "{}")],
    ],
  ] as [string, CallFormatName, string, string, Output["calls"]][])(
    "%s (%s)",
    ([, parser, text, content, calls]) => {
      expect(read(callFormat(parser).createParser(context), [text])).toEqual({ content, calls });
      // Letter by letter: every mark is cut at every place.
      expect(read(callFormat(parser).createParser(context), [...text])).toEqual({ content, calls });
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
    "<function=find>",
    "<parameter=q>\n",
    "\n</parameter>",
    "</function>",
    "[TOOL_CALLS]",
    "find[ARGS]{",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<|python_start|>",
    "find(q='x', ",
    "add()",
    ")",
    "```tool_code\n",
    "```json\n",
    "```",
  ];
  const pieces = fc.array(fc.constantFrom(...fragments), { maxLength: 10 });
  const cuts = fc.array(fc.nat(200), { maxLength: 20 });

  test.for(CALL_FORMATS)("%s", (name) => {
    fc.assert(
      fc.property(pieces, cuts, (parts, places) => {
        const text = parts.join("");
        const bounds = [0, ...places.filter((place) => place < text.length), text.length];
        bounds.sort((a, b) => a - b);
        const cut = bounds.slice(1).map((end, i) => text.slice(bounds[i], end));
        const parser = () => callFormat(name).createParser(context);
        expect(read(parser(), cut)).toEqual(read(parser(), [text]));
      }),
      { seed: 7, numRuns: 2000 },
    );
  });
});

describe("hostile outputs", () => {
  const size = 200_000;
  const hostile: Readonly<Record<string, string>> = {
    "white space": " \n".repeat(size / 2),
    "open marks": "<tool_call>".repeat(size / 11),
    "open markup": "<function=find><parameter=q>".repeat(size / 28),
    "half marks": "<tool_cal".repeat(size / 9),
    brackets: "[".repeat(size),
    "brackets of a call": `[find(q=${"[".repeat(size)}`,
    braces: `<tool_call>${"{".repeat(size)}`,
    quotes: `[find(q=${"'\\".repeat(size / 2)}`,
    "a long name": `[TOOL_CALLS]${"a".repeat(size)}`,
    "a gigantic argument": `<tool_call>{"name": "find", "arguments": {"q": "${"x".repeat(size)}"}}</tool_call>`,
    fences: "```tool_code\n```json\n".repeat(size / 22),
  };

  test.for(
    CALL_FORMATS.flatMap((name) => Object.keys(hostile).map((kind) => [name, kind] as const)),
  )("%s reads %s in time that is linear in the text, and loses none of it", ([name, kind]) => {
    const text = hostile[kind] ?? "";
    const parser = callFormat(name).createParser(context);
    const pieces = Array.from({ length: text.length / 8 + 1 }, (_, i) =>
      text.slice(8 * i, 8 * i + 8),
    );
    const startMs = performance.now();
    const { content, calls } = read(parser, pieces);
    // A quadratic reader takes minutes.
    expect(performance.now() - startMs).toBeLessThan(10_000);
    const shown = content.length + calls.reduce((sum, one) => sum + one.arguments.length, 0);
    if (calls.length === 0) expect(content).toBe(text);
    else expect(shown).toBeGreaterThan(0);
  });
});
