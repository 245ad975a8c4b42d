/** Arguments of tool calls in a conversation, in the form that chat templates expect. */
import type { TemplateMessage } from "./template-message.ts";
import { isObject } from "./tokenizer-files.ts";

/** Tool calls with their arguments as objects: templates print them with `tojson`. */
export function withCallArguments(message: TemplateMessage): TemplateMessage {
  const { tool_calls: calls } = message;
  if (!Array.isArray(calls)) return message;
  const parsedCalls = calls.map((call: unknown) => {
    const target = isObject(call) ? call.function : null;
    if (!isObject(call) || !isObject(target) || typeof target.arguments !== "string") return call;
    return { ...call, function: { ...target, arguments: parsedArguments(target.arguments) } };
  });
  return { ...message, tool_calls: parsedCalls };
}

/** Arguments that are not JSON (a model may write anything) stay text. */
function parsedArguments(text: string): unknown {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch {
    return text; // a common case: the template shows it unchanged
  }
}

/** Wraps non-object arguments in an object; returns the same message if all are objects. */
export function withObjectArguments(message: TemplateMessage): TemplateMessage {
  const { tool_calls: calls } = message;
  if (!Array.isArray(calls) || calls.every(hasObjectArguments)) return message;
  const objectCalls = calls.map((call: unknown) => {
    const target = isObject(call) ? call.function : null;
    if (!isObject(call) || !isObject(target) || isObject(target.arguments)) return call;
    return { ...call, function: { ...target, arguments: { arguments: target.arguments ?? null } } };
  });
  return { ...message, tool_calls: objectCalls };
}

function hasObjectArguments(call: unknown): boolean {
  return isObject(call) && isObject(call.function) && isObject(call.function.arguments);
}
