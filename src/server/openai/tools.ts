/** Tools of a chat request: tools for the template, forced calls, and call parsers. */
import { z } from "zod";
import { callSetting, callUse, type OutputParser } from "#chat";
import type { StructuredOutput } from "#engine";
import type { ServerConfig } from "../config.ts";
import { anyObject, boundedList, LIST_LIMITS } from "./bounded.ts";
import { fileSearchTool } from "./file-search.ts";
import { fieldError } from "./parse-request.ts";

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
  readonly createParser: (() => OutputParser) | null;
  /** Marks in its text that may be special tokens of a tokenizer. */
  readonly marks: readonly string[];
}

const NO_TOOLS: ToolUse = { shown: [], structuredOutput: null, createParser: null, marks: [] };

/**
 * Reads `tools` and `tool_choice`. `template`: the text of the chat template; null: unknown. Throws
 * INVALID_ARGUMENT if they contradict each other.
 */
export function toolUse(
  request: ToolRequest,
  setting: ServerConfig["toolCallParser"],
  { template, newId }: { readonly template: string | null; newId(): string },
): ToolUse {
  const { tool_choice: wanted = null } = request;
  const given = request.tools ?? [];
  const choice = wanted ?? (given.length > 0 ? "auto" : "none");
  if (choice === "none") return NO_TOOLS;
  const tools = functionsOf(given);
  if (tools.length === 0) throw fieldError("tool_choice", "needs tools, the request has none");
  const callable = tools.map(({ function: { name, parameters } }) => ({
    name,
    parameters: parameters ?? null,
  }));
  const use = callUse(callable, {
    setting: callSetting(setting, template),
    choice: typeof choice === "string" ? choice : { name: nameOf(choice, tools) },
    onlyOne: request.parallel_tool_calls === false,
    newId: () => `call_${newId().replaceAll("-", "").slice(0, 24)}`,
  });
  const { createParser, marks, forced } = use;
  const structuredOutput = forced === null ? null : { structuralTag: forced };
  return { shown: tools, structuredOutput, createParser, marks };
}

type NamedChoice = Exclude<NonNullable<ToolRequest["tool_choice"]>, string>;

/** The name of the tool that must be called. Throws INVALID_ARGUMENT where it is none of them. */
function nameOf(choice: NamedChoice, tools: readonly Tool[]): string {
  if (choice.type === "file_search") {
    throw fieldError("tool_choice", "must name one of the tools, file_search is none of them");
  }
  const { name } = choice.function;
  if (tools.some((known) => known.function.name === name)) return name;
  throw fieldError("tool_choice", `must name one of the tools, current value is ${name}`);
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
