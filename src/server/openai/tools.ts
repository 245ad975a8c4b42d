/** Tools of a chat request: tools for the template, forced calls, and call parsers. */
import { z } from "zod";
import type { StructuredOutput } from "#engine";
import type { ServerConfig } from "../config.ts";
import { anyObject, boundedList, LIST_LIMITS } from "./bounded.ts";
import { fileSearchTool } from "./file-search.ts";
import { fieldError } from "./parse-request.ts";
import { AutoParser } from "./tool-calls/auto.ts";
import { HERMES_FRAMING, HermesParser } from "./tool-calls/hermes.ts";
import { LLAMA3_FRAMING, Llama3Parser } from "./tool-calls/llama3.ts";
import type {
  CallFraming,
  ToolCallContext,
  ToolCallParser,
} from "./tool-calls/tool-call-parser.ts";

/** The name of a function. */
export const toolName = z
  .string()
  .regex(/^[\w.-]{1,64}$/, "must be 1 to 64 letters, digits, _ . or -");
/** A tool that clients run. */
export const functionTool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: toolName,
    description: z.string().nullish(),
    parameters: anyObject.nullish(),
    strict: z.boolean().nullish(),
  }),
});
type Tool = z.output<typeof functionTool>;

const tool = z.discriminatedUnion(
  "type",
  [functionTool, fileSearchTool],
  "must have type function or file_search",
);

export const toolFields = {
  tools: boundedList(tool, { max: LIST_LIMITS.tools }).nullish(),
  tool_choice: z
    .union(
      [
        z.enum(["none", "auto", "required"]),
        z.strictObject({
          type: z.literal("function"),
          function: z.strictObject({ name: toolName }),
        }),
        z.strictObject({ type: z.literal("file_search") }),
      ],
      'must be "none", "auto", "required" or {"type": "function", "function": {"name": …}}',
    )
    .nullish(),
  parallel_tool_calls: z.boolean().nullish(),
};

const ToolRequest = z.object(toolFields);
type ToolRequest = z.output<typeof ToolRequest>;

/** The effect of a request's tools on its generation. */
export interface ToolUse {
  /** Tools that the template shows; none if the client forbade calls. */
  readonly shown: readonly Tool[];
  /** Forces the output to be a call; null if the model chooses. */
  readonly structuredOutput: StructuredOutput | null;
  /** A parser for one sequence; null: all text is content. */
  readonly createParser: (() => ToolCallParser) | null;
}

const NO_TOOLS: ToolUse = { shown: [], structuredOutput: null, createParser: null };

/** Reads `tools` and `tool_choice`. Throws INVALID_ARGUMENT if they contradict each other. */
export function toolUse(
  request: ToolRequest,
  parser: ServerConfig["toolCallParser"],
  newId: () => string,
): ToolUse {
  const { tool_choice: wanted = null } = request;
  const given = request.tools ?? [];
  const choice = wanted ?? (given.length > 0 ? "auto" : "none");
  if (choice === "none") return NO_TOOLS;
  const tools = functionsOf(given);
  if (tools.length === 0) throw fieldError("tool_choice", "needs tools, the request has none");
  const context: ToolCallContext = {
    toolNames: new Set(tools.map((known) => known.function.name)),
    newId: () => `call_${newId().replaceAll("-", "").slice(0, 24)}`,
  };
  if (choice === "auto") {
    return { shown: tools, structuredOutput: null, createParser: freeParser(parser, context) };
  }
  const named = choice !== "required";
  if (named && choice.type === "file_search") {
    throw fieldError("tool_choice", "must name one of the tools, file_search is none of them");
  }
  const callable = named ? [toolNamed(tools, choice.function.name)] : tools;
  const onlyOne = named || request.parallel_tool_calls === false;
  return { shown: tools, ...forcedCalls(callable, { parser, context, onlyOne }) };
}

/** The functions among tools. Throws INVALID_ARGUMENT where one is no function. */
export function functionsOf(tools: NonNullable<ToolRequest["tools"]>): readonly Tool[] {
  return tools.map((known) => {
    if (known.type === "function") return known;
    throw fieldError(
      "tools",
      "file_search is run by POST /v1/chat/completions, and has no prompt to render; leave it out",
    );
  });
}

function toolNamed(tools: readonly Tool[], name: string): Tool {
  const found = tools.find((known) => known.function.name === name);
  if (found !== undefined) return found;
  throw fieldError("tool_choice", `must name one of the tools, current value is ${name}`);
}

function freeParser(
  parser: ServerConfig["toolCallParser"],
  context: ToolCallContext,
): (() => ToolCallParser) | null {
  switch (parser) {
    case "auto":
      return () => new AutoParser(context);
    case "hermes":
      return () => new HermesParser(context);
    case "llama3_json":
      return () => new Llama3Parser(context);
    case "none":
      return null;
  }
}

interface Forced {
  readonly parser: ServerConfig["toolCallParser"];
  readonly context: ToolCallContext;
  readonly onlyOne: boolean;
}

/**
 * Forces the whole output to be calls, in the format of the parser setting: the model chooses the
 * tool, and arguments of that tool's schema.
 */
function forcedCalls(
  tools: readonly Tool[],
  { parser, context, onlyOne }: Forced,
): Omit<ToolUse, "shown"> {
  const { framing, createParser } = forcedFormat(parser, context);
  const { begin, end, separator } = framing;
  const tags = tools.map((known) => ({
    type: "tag",
    begin: begin(known.function.name),
    content: { type: "json_schema", json_schema: parametersOf(known) },
    end,
  }));
  const format = {
    type: "tags_with_separator",
    tags,
    separator,
    at_least_one: true,
    stop_after_first: onlyOne,
  };
  return {
    structuredOutput: { structuralTag: { type: "structural_tag", format } },
    createParser,
  };
}

interface ForcedFormat {
  readonly framing: CallFraming;
  readonly createParser: () => ToolCallParser;
}

/** The format of forced calls; where the setting names none, Hermes'. */
function forcedFormat(
  parser: ServerConfig["toolCallParser"],
  context: ToolCallContext,
): ForcedFormat {
  switch (parser) {
    case "llama3_json":
      return { framing: LLAMA3_FRAMING, createParser: () => new Llama3Parser(context) };
    case "hermes":
    case "auto":
    case "none":
      return { framing: HERMES_FRAMING, createParser: () => new HermesParser(context) };
  }
}

function parametersOf({ function: { parameters } }: Tool): Readonly<Record<string, unknown>> {
  return parameters ?? { type: "object", properties: {}, additionalProperties: false };
}
