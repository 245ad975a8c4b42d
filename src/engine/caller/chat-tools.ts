/** Runs the calls of a chat. */
import { isPlainObject, messageOf } from "#base";
import { argumentProblem } from "#chat";
import type { ChatMessage, ChatTool, ChatToolCall } from "#engine/protocol";
import { listenTo } from "./abort-listener.ts";
import { JSON_UNITS_MAX, JSON_VALUES_MAX, JsonBudget } from "./bounded-json.ts";

/** Longest error of a handler that the model is shown, in UTF-16 units. */
const REASON_MAX = 1_000;

const TOO_LARGE =
  `the result is too large: it must have at most ${JSON_UNITS_MAX} characters and ` +
  `${JSON_VALUES_MAX} values`;

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

/**
 * Runs one call. Failures become its result, except when the chat was cancelled: a handler that
 * does not look at the signal is not waited for.
 */
export async function runTool(
  tools: readonly ChatTool[],
  call: ChatToolCall,
  signal: AbortSignal | undefined,
): Promise<ToolResult> {
  const tool = tools.find(({ name }) => name === call.name);
  const failed = (reason: string): ToolResult => ({
    ...{ call, result: JSON.stringify({ error: reason.slice(0, REASON_MAX) }), isError: true },
  });
  if (tool?.run === undefined) return failed(`there is no tool ${call.name}`);
  if (call.arguments === null) return failed("the arguments must be a JSON object");
  const problem = argumentProblem(call.arguments, tool.parameters ?? null);
  if (problem !== null) return failed(problem);
  try {
    signal?.throwIfAborted();
    const value = await unlessAborted(tool.run(call.arguments, runOf(call, signal)), signal);
    const text = typeof value === "string" ? value : new JsonBudget().write(value);
    if (text === null) return failed(TOO_LARGE);
    return { call, result: text.slice(0, JSON_UNITS_MAX), isError: false };
  } catch (error) {
    signal?.throwIfAborted();
    return failed(reasonOf(error));
  }
}

function runOf(call: ChatToolCall, signal: AbortSignal | undefined) {
  return { call, ...(signal && { signal }) };
}

/** What the handler returns; rejects with the signal's reason as soon as it is aborted. */
async function unlessAborted(work: unknown, signal: AbortSignal | undefined): Promise<unknown> {
  if (signal === undefined) return await work;
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    listenTo(signal, onAbort);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Handlers may throw anything, such as what has no text. */
function reasonOf(thrown: unknown): string {
  try {
    return String(messageOf(thrown));
  } catch {
    return "the tool failed, and does not say why";
  }
}

/** The turn that tells the model of a result. */
export function resultMessage({ call, result }: ToolResult): ChatMessage {
  return { role: "tool", tool_call_id: call.id, name: call.name, content: result };
}
