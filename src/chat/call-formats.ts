/** The formats of tool calls, by the names that vLLM gives them where it has them. */
import { BeginningParser, PlainParser } from "./beginning-parser.ts";
import { CallEmitter, hasName, namesTool } from "./call-emitter.ts";
import type { CallReader } from "./call-reader.ts";
import { CallWriter } from "./call-writer.ts";
import {
  type CallableTool,
  callSequence,
  jsonCall,
  markupCall,
  pythonCall,
  type TagFormat,
} from "./forced-calls.ts";
import { NamedCalls } from "./json-argument-calls.ts";
import { JsonCalls } from "./json-calls.ts";
import { Llama3Parser, PYTHON_TAG } from "./llama3-parser.ts";
import { type MarkedCalls, MarkedParser } from "./marked-parser.ts";
import { FUNCTION, MarkupCalls, TaggedCalls } from "./markup-calls.ts";
import { MistralCalls } from "./mistral-calls.ts";
import type { CallContext, OutputParser } from "./output-part.ts";
import { PythonCalls } from "./python-calls.ts";
import { PYTHONIC_MARKS, PythonicParser } from "./pythonic-parser.ts";

/** The names of the formats; `auto` reads them all, by what a text begins with. */
export const CALL_FORMATS = [
  "auto",
  "hermes",
  "qwen3_coder",
  "smollm",
  "llama3_json",
  "mistral",
  "mistral_args",
  "phi4_mini_json",
  "pythonic",
  "gemma",
] as const;
export type CallFormatName = (typeof CALL_FORMATS)[number];

/** How one family of models writes calls. */
export interface CallFormat {
  /** Marks that a tokenizer may have as special tokens: texts to be parsed must keep them. */
  readonly marks: readonly string[];
  /** A parser for one sequence. */
  createParser(context: CallContext): OutputParser;
  /** The part of a structural tag that makes the whole output calls of the tools. */
  forced(tools: readonly CallableTool[], onlyOne: boolean): TagFormat;
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
const TOOL_CALLS = "[TOOL_CALLS]";
const PHI_OPEN = "<|tool_call|>";
const PHI_CLOSE = "<|/tool_call|>";
const FENCE = "```";

function quotedName(name: string): string {
  return `{"name": ${JSON.stringify(name)}, "arguments": `;
}

const listedCall = jsonCall(quotedName, "}");

/** The parts of notations that a mark opens, which share the numbers of one output's calls. */
function tagged(writer: CallWriter): MarkedCalls {
  const createReader = (): CallReader =>
    new TaggedCalls(jsonCalls(writer), new MarkupCalls(writer, false));
  return { open: OPEN, close: CLOSE, createReader };
}

function bareMarkup(writer: CallWriter): MarkedCalls {
  return { open: FUNCTION, close: CLOSE, createReader: () => new MarkupCalls(writer, true) };
}

function phi(writer: CallWriter): MarkedCalls {
  return { open: PHI_OPEN, close: PHI_CLOSE, createReader: () => jsonCalls(writer) };
}

function mistral(writer: CallWriter): MarkedCalls {
  const createReader = (): CallReader =>
    new MistralCalls(jsonCalls(writer), new NamedCalls(writer));
  return { open: TOOL_CALLS, close: null, createReader };
}

function fencedPython(writer: CallWriter): MarkedCalls {
  const list = { between: /[\s,;[\]()]/, end: FENCE };
  const createReader = (): CallReader => new PythonCalls(writer, list);
  return { open: `${FENCE}tool_code`, close: FENCE, createReader };
}

/** An object in a fence is a call only where it names a tool: answers may be JSON. */
function fencedJson(writer: CallWriter, word: string): MarkedCalls {
  const createReader = (): CallReader => new JsonCalls(new CallEmitter(writer, namesTool(writer)));
  return { open: FENCE + word, close: FENCE, createReader };
}

function jsonCalls(writer: CallWriter): CallReader {
  return new JsonCalls(new CallEmitter(writer, hasName));
}

function marked(
  context: CallContext,
  ...notations: ((writer: CallWriter) => MarkedCalls)[]
): OutputParser {
  const writer = new CallWriter(context);
  return new MarkedParser(notations.map((notation) => notation(writer)));
}

const gemmaFences = [
  fencedPython,
  (writer: CallWriter) => fencedJson(writer, "tool_call"),
  (writer: CallWriter) => fencedJson(writer, "json"),
];

function autoParser(context: CallContext): OutputParser {
  const anywhere = (): OutputParser =>
    marked(context, tagged, bareMarkup, phi, mistral, fencedPython);
  return new BeginningParser(
    [
      { begins: ["{", PYTHON_TAG], create: () => new Llama3Parser(context) },
      { begins: [TOOL_CALLS], create: anywhere },
      {
        begins: ["[", PYTHONIC_MARKS[0] ?? "["],
        create: () => new PythonicParser(context, anywhere()),
      },
    ],
    anywhere,
  );
}

const hermes: CallFormat = {
  marks: [OPEN, CLOSE],
  createParser: (context) => marked(context, tagged, bareMarkup),
  forced: (tools, onlyOne) =>
    callSequence(
      tools,
      jsonCall((name) => `${OPEN}\n${quotedName(name)}`, `}\n${CLOSE}`),
      {
        ...{ separator: "\n", onlyOne },
      },
    ),
};

const FORMATS: Readonly<Record<CallFormatName, CallFormat>> = {
  auto: {
    ...hermes,
    marks: [OPEN, CLOSE, PYTHON_TAG, TOOL_CALLS, "[ARGS]", PHI_OPEN, PHI_CLOSE, ...PYTHONIC_MARKS],
    createParser: autoParser,
  },
  hermes,
  qwen3_coder: {
    ...hermes,
    forced: (tools, onlyOne) => callSequence(tools, markupCall, { separator: "\n", onlyOne }),
  },
  smollm: {
    ...hermes,
    forced: (tools, onlyOne) =>
      callSequence(tools, listedCall, {
        ...{ before: `${OPEN}[`, separator: ", ", behind: `]${CLOSE}`, onlyOne },
      }),
  },
  llama3_json: {
    marks: [PYTHON_TAG],
    createParser: (context) => new Llama3Parser(context),
    forced: (tools, onlyOne) => {
      const begin = (name: string) => `{"name": ${JSON.stringify(name)}, "parameters": `;
      return callSequence(tools, jsonCall(begin, "}"), { separator: "; ", onlyOne });
    },
  },
  mistral: {
    marks: [TOOL_CALLS, "[ARGS]", "[CALL_ID]"],
    createParser: (context) => marked(context, mistral),
    forced: (tools, onlyOne) =>
      callSequence(tools, listedCall, {
        ...{ before: `${TOOL_CALLS}[`, separator: ", ", behind: "]", onlyOne },
      }),
  },
  mistral_args: {
    marks: [TOOL_CALLS, "[ARGS]", "[CALL_ID]"],
    createParser: (context) => marked(context, mistral),
    forced: (tools, onlyOne) =>
      callSequence(
        tools,
        jsonCall((name) => `${TOOL_CALLS}${name}[ARGS]`, ""),
        {
          ...{ separator: "", onlyOne },
        },
      ),
  },
  phi4_mini_json: {
    marks: [PHI_OPEN, PHI_CLOSE],
    createParser: (context) => marked(context, phi),
    forced: (tools, onlyOne) =>
      callSequence(tools, listedCall, {
        ...{ before: `${PHI_OPEN}[`, separator: ", ", behind: `]${PHI_CLOSE}`, onlyOne },
      }),
  },
  pythonic: {
    marks: PYTHONIC_MARKS,
    createParser: (context) => new PythonicParser(context, new PlainParser()),
    forced: (tools, onlyOne) =>
      callSequence(tools, pythonCall, { before: "[", separator: ", ", behind: "]", onlyOne }),
  },
  gemma: {
    marks: [],
    createParser: (context) =>
      new BeginningParser([{ begins: ["{"], create: () => new Llama3Parser(context) }], () =>
        marked(context, ...gemmaFences, tagged),
      ),
    forced: (tools, onlyOne) =>
      callSequence(tools, pythonCall, {
        ...{ before: `${FENCE}tool_code\n`, separator: "\n", behind: `\n${FENCE}`, onlyOne },
      }),
  },
};

/** The format of that name. */
export function callFormat(name: CallFormatName): CallFormat {
  return FORMATS[name];
}
