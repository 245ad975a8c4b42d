/** The options of a chat, checked. */
import { EngineError, isPlainObject } from "#base";
import type { ChatCallOptions, ChatTool } from "#engine/protocol";
import { wrongKind } from "./request-check.ts";

const ROUNDS_DEFAULT = 8;
const NAME = /^[\w.-]{1,64}$/;
const CHOICES: readonly unknown[] = ["auto", "none", "required"];

/** Most rounds of a chat with these options. Throws INVALID_ARGUMENT for any wrong option. */
export function checkChat(options: ChatCallOptions): { readonly roundsMax: number } {
  const { tools = [], toolChoice = "auto", roundsMax = ROUNDS_DEFAULT } = options;
  for (const name of ["n", "beamWidth", "logprobs", "promptLogprobs"] as const) {
    if (!(name in options)) continue;
    throw refused(name, "is no option of a chat: use chatPrompt() and generate()");
  }
  if (!Number.isSafeInteger(roundsMax) || roundsMax < 1) {
    throw wrongKind("roundsMax", "a positive integer", roundsMax);
  }
  checkTools(tools);
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
  return { roundsMax };
}

function checkTools(tools: readonly ChatTool[]): void {
  const seen = new Set<string>();
  for (const [place, tool] of tools.entries()) {
    const param = `tools[${place}]`;
    if (!isPlainObject(tool)) throw wrongKind(param, "an object with a name", tool);
    const { name, parameters, run } = tool;
    if (name === undefined && "function" in tool) {
      throw refused(
        `${param}.function`,
        "is OpenAI's form: give { name, description, parameters }",
      );
    }
    if (typeof name !== "string" || !NAME.test(name)) {
      throw wrongKind(`${param}.name`, "1 to 64 letters, digits, _ . or -", name);
    }
    if (seen.has(name)) throw refused(`${param}.name`, `must be unique, ${name} is there twice`);
    seen.add(name);
    if (parameters !== undefined && !isPlainObject(parameters)) {
      throw wrongKind(`${param}.parameters`, "a JSON schema", parameters);
    }
    if (run !== undefined && typeof run !== "function") {
      throw wrongKind(`${param}.run`, "a function", run);
    }
  }
}

function refused(param: string, wanted: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot use ${param}: ${wanted}`, { param });
}
