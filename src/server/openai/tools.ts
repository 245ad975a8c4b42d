/** Tools of a chat request: what the template shows, and how calls are forced and parsed. */
import { z } from "zod";
import type { ServerConfig } from "../config.ts";
import { fieldError } from "./parse-request.ts";
import type { StructuredOutput } from "./sampling-request.ts";
import { AutoParser } from "./tool-calls/auto.ts";
import { HermesParser } from "./tool-calls/hermes.ts";
import { JsonSequenceParser } from "./tool-calls/json-sequence.ts";
import { NamedCallParser } from "./tool-calls/named-call.ts";
import type { ToolCallContext, ToolCallParser } from "./tool-calls/tool-call-parser.ts";

const toolName = z.string().regex(/^[\w.-]{1,64}$/, "must be 1 to 64 letters, digits, _ . or -");
const tool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: toolName,
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.unknown()).nullish(),
    strict: z.boolean().nullish(),
  }),
});
type Tool = z.output<typeof tool>;
type JsonSchema = Readonly<Record<string, unknown>>;

export const toolFields = {
  tools: z.array(tool).max(128).nullish(),
  tool_choice: z
    .union(
      [
        z.enum(["none", "auto", "required"]),
        z.strictObject({
          type: z.literal("function"),
          function: z.strictObject({ name: toolName }),
        }),
      ],
      'must be "none", "auto", "required" or {"type": "function", "function": {"name": …}}',
    )
    .nullish(),
  parallel_tool_calls: z.boolean().nullish(),
};

const ToolRequest = z.object(toolFields);
type ToolRequest = z.output<typeof ToolRequest>;

/** What a request's tools mean for its generation. */
export interface ToolUse {
  /** Tools that the template shows; none where the client forbade calls. */
  readonly shown: readonly Tool[];
  /** Makes the output a call; null where the model chooses. */
  readonly structuredOutput: StructuredOutput | null;
  /** A parser for one sequence; null: all text is content. */
  readonly createParser: (() => ToolCallParser) | null;
}

const NO_TOOLS: ToolUse = { shown: [], structuredOutput: null, createParser: null };

/** Reads `tools` and `tool_choice`. Throws INVALID_ARGUMENT where they do not fit together. */
export function toolUse(
  request: ToolRequest,
  parser: ServerConfig["toolCallParser"],
  newId: () => string,
): ToolUse {
  const tools = request.tools ?? [];
  const choice = request.tool_choice ?? (tools.length > 0 ? "auto" : "none");
  if (choice === "none") return NO_TOOLS;
  if (tools.length === 0) throw fieldError("tool_choice", "needs tools, the request has none");
  const context: ToolCallContext = {
    toolNames: new Set(tools.map((known) => known.function.name)),
    newId: () => `call_${newId().replaceAll("-", "").slice(0, 24)}`,
  };
  if (choice === "auto") {
    return { shown: tools, structuredOutput: null, createParser: freeParser(parser, context) };
  }
  if (choice === "required") {
    return {
      shown: tools,
      structuredOutput: { json: callListSchema(tools, request.parallel_tool_calls === false) },
      createParser: () => new JsonSequenceParser(context, { forced: true }),
    };
  }
  return namedUse(tools, choice.function.name, context);
}

function namedUse(tools: readonly Tool[], name: string, context: ToolCallContext): ToolUse {
  const chosen = tools.find((known) => known.function.name === name);
  if (chosen === undefined) {
    throw fieldError("tool_choice", `must name one of the tools, current value is ${name}`);
  }
  return {
    shown: tools,
    structuredOutput: { json: { ...parametersOf(chosen) } },
    createParser: () => new NamedCallParser(context, name),
  };
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
      return () => new JsonSequenceParser(context, { forced: false });
    case "none":
      return null;
  }
}

function parametersOf({ function: { parameters } }: Tool): JsonSchema {
  return parameters ?? { type: "object", properties: {}, additionalProperties: false };
}

/** One or more calls, each of one of the tools with arguments of its schema. */
function callListSchema(tools: readonly Tool[], onlyOne: boolean): Record<string, unknown> {
  const definitions: Record<string, unknown> = {};
  const calls = tools.map((known) => {
    const { $defs, ...parameters } = parametersOf(known);
    addDefinitions(definitions, $defs);
    return {
      type: "object",
      properties: { name: { const: known.function.name }, arguments: parameters },
      required: ["name", "arguments"],
      additionalProperties: false,
    };
  });
  return {
    type: "array",
    minItems: 1,
    ...(onlyOne ? { maxItems: 1 } : {}),
    items: calls.length === 1 ? calls[0] : { anyOf: calls },
    ...(Object.keys(definitions).length > 0 ? { $defs: definitions } : {}),
  };
}

/** `#/$defs/…` is read from the root of the whole schema, so definitions must move there. */
function addDefinitions(all: Record<string, unknown>, added: unknown): void {
  if (typeof added !== "object" || added === null) return;
  for (const [name, definition] of Object.entries(added)) {
    const known = all[name];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(definition)) {
      throw fieldError("tools", `must not define $defs.${name} in two different ways`);
    }
    all[name] = definition;
  }
}
