/** Runs the calls of a chat. */
import { isPlainObject, messageOf } from "#base";
import { argumentProblem } from "#chat";
import type { ChatMessage, ChatTool, ChatToolCall } from "#engine/protocol";

/** Longest result that the model is shown, in UTF-16 units: handlers may return anything. */
const RESULT_MAX = 1_000_000;

/** What came of a call. */
export interface ToolResult {
  readonly call: ChatToolCall;
  /** What the model is told. */
  readonly result: string;
  readonly isError: boolean;
}

/** A call with its arguments parsed. */
export function chatToolCall(id: string, name: string, argumentsText: string): ChatToolCall {
  return { id, name, arguments: objectIn(argumentsText), argumentsText };
}

function objectIn(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isPlainObject(value) ? value : null;
  } catch {
    return null; // a model may write anything
  }
}

/** Whether each of the calls has a handler. */
export function canRunAll(tools: readonly ChatTool[], calls: readonly ChatToolCall[]): boolean {
  const runnable = new Set(tools.filter((tool) => tool.run !== undefined).map(({ name }) => name));
  const known = new Set(tools.map(({ name }) => name));
  // A model that calls what does not exist is told so.
  return calls.every(({ name }) => runnable.has(name) || !known.has(name));
}

/** Runs one call. Failures become its result, except when the chat was cancelled. */
export async function runTool(
  tools: readonly ChatTool[],
  call: ChatToolCall,
  signal: AbortSignal | undefined,
): Promise<ToolResult> {
  const tool = tools.find(({ name }) => name === call.name);
  const failed = (reason: string): ToolResult => ({
    ...{ call, result: JSON.stringify({ error: reason }), isError: true },
  });
  if (tool?.run === undefined) return failed(`there is no tool ${call.name}`);
  if (call.arguments === null) return failed("the arguments must be a JSON object");
  const problem = argumentProblem(call.arguments, tool.parameters ?? null);
  if (problem !== null) return failed(problem);
  try {
    const value = await tool.run(call.arguments, { call, ...(signal && { signal }) });
    return { call, result: resultText(value), isError: false };
  } catch (error) {
    signal?.throwIfAborted();
    return failed(messageOf(error));
  }
}

function resultText(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "null");
  return text.slice(0, RESULT_MAX);
}

/** The turn that tells the model of a result. */
export function resultMessage({ call, result }: ToolResult): ChatMessage {
  return { role: "tool", tool_call_id: call.id, name: call.name, content: result };
}
