/** The options of a chat, checked. */
import { EngineError, isPlainObject, requireOptions } from "#base";
import { CALL_FORMATS, REASONING_FORMATS } from "#chat";
import type { ChatCallOptions, ChatTool, ToolSchema } from "#engine/protocol";
import { JSON_UNITS_MAX, JSON_VALUES_MAX, JsonBudget } from "./bounded-json.ts";
import { checkSignal, wrongKind } from "./request-check.ts";

const ROUNDS_DEFAULT = 8;
/** As over HTTP: each is in the prompt of every round. */
const TOOLS_MAX = 128;
const NAME = /^[\w.-]{1,64}$/;
const CHOICES: readonly unknown[] = ["auto", "none", "required"];

/** What a chat reads of its options before its first round. */
export interface CheckedChat {
  readonly roundsMax: number;
  /** Copies, with schemas that are plain JSON: nothing changes them while calls are run. */
  readonly tools: readonly ChatTool[];
}

/** Throws INVALID_ARGUMENT for any wrong option. */
export function checkChat(options: ChatCallOptions): CheckedChat {
  requireOptions(options);
  const { tools: given = [], toolChoice = "auto", roundsMax = ROUNDS_DEFAULT, signal } = options;
  for (const name of ["n", "beamWidth", "logprobs", "promptLogprobs"] as const) {
    if (!(name in options)) continue;
    throw refused(name, "is no option of a chat: use chatPrompt() and generate()");
  }
  if (!Number.isSafeInteger(roundsMax) || roundsMax < 1) {
    throw wrongKind("roundsMax", "a positive integer", roundsMax);
  }
  checkSignal(signal);
  checkForm(options);
  const tools = checkedTools(given);
  const named = isPlainObject(toolChoice) ? toolChoice.name : null;
  if (named === null && !CHOICES.includes(toolChoice)) {
    throw wrongKind("toolChoice", '"auto", "none", "required" or { name }', toolChoice);
  }
  if (named !== null && !tools.some(({ name }) => name === named)) {
    throw refused("toolChoice", `must name one of the tools, current value is ${String(named)}`);
  }
  if (toolChoice === "required" && tools.length === 0) {
    throw refused("toolChoice", "needs tools, there are none");
  }
  return { roundsMax, tools };
}

/** How conversation and answer are written. */
function checkForm(options: ChatCallOptions): void {
  const { thinking, parallelToolCalls, chatTemplate, templateVariables } = options;
  for (const [name, value] of Object.entries({ thinking, parallelToolCalls })) {
    if (value !== undefined && typeof value !== "boolean") {
      throw wrongKind(name, "true or false", value);
    }
  }
  if (chatTemplate !== undefined && typeof chatTemplate !== "string") {
    throw wrongKind("chatTemplate", "the text of a template", chatTemplate);
  }
  if (templateVariables !== undefined && !isPlainObject(templateVariables)) {
    throw wrongKind("templateVariables", "an object", templateVariables);
  }
  checkFormat("toolCallFormat", options.toolCallFormat, CALL_FORMATS);
  checkFormat("reasoningFormat", options.reasoningFormat, [...REASONING_FORMATS, "none"]);
}

function checkFormat(param: string, format: unknown, known: readonly string[]): void {
  if (format === undefined || known.some((name) => name === format)) return;
  throw refused(param, `must be one of ${known.join(", ")}`);
}

function checkedTools(tools: readonly ChatTool[]): readonly ChatTool[] {
  if (!Array.isArray(tools)) throw wrongKind("tools", "a list of tools", tools);
  if (tools.length > TOOLS_MAX) {
    throw refused("tools", `must be at most ${TOOLS_MAX}, current value is ${tools.length}`);
  }
  const seen = new Set<string>();
  const budget = new JsonBudget();
  return Array.from(tools, (tool: unknown, place) => {
    const checked = checkedTool(tool, `tools[${place}]`, budget);
    const { name } = checked;
    if (seen.has(name)) {
      throw refused(`tools[${place}].name`, `must be unique, ${name} is there twice`);
    }
    seen.add(name);
    return checked;
  });
}

function checkedTool(tool: unknown, param: string, budget: JsonBudget): ChatTool {
  if (!isPlainObject(tool)) throw wrongKind(param, "an object with a name", tool);
  const { name, description, parameters, run } = tool;
  if (name === undefined && "function" in tool) {
    throw refused(`${param}.function`, "is OpenAI's form: give { name, description, parameters }");
  }
  if (typeof name !== "string" || !NAME.test(name)) {
    throw wrongKind(`${param}.name`, "1 to 64 letters, digits, _ . or -", name);
  }
  if (description !== undefined && typeof description !== "string") {
    throw wrongKind(`${param}.description`, "a string", description);
  }
  if (run !== undefined && typeof run !== "function") {
    throw wrongKind(`${param}.run`, "a function", run);
  }
  return {
    name,
    ...(description !== undefined && { description }),
    ...(parameters !== undefined && {
      parameters: plainSchema(parameters, `${param}.parameters`, budget),
    }),
    // Called as a method, for handlers that use `this`.
    ...(run !== undefined && { run: (args, about) => run.call(tool, args, about) }),
  };
}

/** A copy without getters, functions and whatever else no other thread can be sent. */
function plainSchema(schema: unknown, param: string, budget: JsonBudget): ToolSchema {
  if (!isPlainObject(schema)) throw wrongKind(param, "a JSON schema", schema);
  let text: string | null;
  try {
    text = budget.write(schema);
  } catch (cause) {
    const message = `Cannot use ${param}: must be an object that can be written as JSON, it is not`;
    throw new EngineError("INVALID_ARGUMENT", message, { param, cause });
  }
  const copy: unknown = text === null ? null : JSON.parse(text);
  if (isPlainObject(copy)) return copy;
  throw refused(
    param,
    `must be a JSON schema, of at most ${JSON_UNITS_MAX} characters and ${JSON_VALUES_MAX} ` +
      "values with those of the tools before it",
  );
}

function refused(param: string, wanted: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot use ${param}: ${wanted}`, { param });
}
