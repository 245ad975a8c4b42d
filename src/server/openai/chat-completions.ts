/** POST /v1/chat/completions, without streaming. */
import type { Completion, GenerateResult } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import { type Answer, finishReason } from "./answer.ts";
import { type ChatGeneration, chatGeneration } from "./chat-generation.ts";
import { ChatRequest } from "./chat-request.ts";
import { chatEvents } from "./chat-stream.ts";
import { checkModelName } from "./delivery.ts";
import { fileSearchAnswer, searchToolOf } from "./file-search-answer.ts";
import { chatLogprobs, promptLogprobs } from "./logprobs.ts";
import { parseRequest } from "./parse-request.ts";
import type { OutputPart } from "./tool-calls/tool-call-parser.ts";

export async function chatCompletions(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const request = parseRequest(ChatRequest, body);
  checkModelName(context, request.model);
  const tool = searchToolOf(request);
  if (tool !== null) return await fileSearchAnswer(context, { request, tool }, call);
  const generation = await chatGeneration(context, request, call);
  if (request.stream === true) {
    return { kind: "events", events: chatEvents(context.model, generation) };
  }
  const [result] = await context.model.generate([generation.prompt], generation.options);
  return { kind: "json", value: result === undefined ? null : chatAnswer(generation, result) };
}

function chatAnswer(generation: ChatGeneration, result: GenerateResult): unknown {
  const { request, tokens, usage } = generation;
  for (const completion of result.completions) {
    usage.add(0, result, completion.tokenIds.length, completion.drafts);
    usage.hold(0, completion);
  }
  return {
    id: generation.id,
    object: "chat.completion",
    created: generation.created,
    model: generation.modelName,
    choices: result.completions.map((completion) => chatChoice(generation, completion)),
    usage: usage.usage(),
    ...(result.promptLogprobs === null
      ? {}
      : { prompt_logprobs: promptLogprobs(result.promptLogprobs, tokens) }),
    ...(request.return_token_ids === true ? { prompt_token_ids: result.promptTokenIds } : {}),
  };
}

function chatChoice(generation: ChatGeneration, completion: Completion): unknown {
  const { request, tokens } = generation;
  const { content, calls } = splitOutput(generation, completion.text ?? "");
  const reason = finishReason(completion.finishReason);
  return {
    index: completion.index,
    message: {
      role: "assistant",
      content,
      refusal: null,
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    },
    logprobs: generation.logprobs ? chatLogprobs(completion.logprobs ?? [], tokens) : null,
    finish_reason: reason === "stop" && calls.length > 0 ? "tool_calls" : reason,
    stop_reason: completion.stopReason,
    ...(completion.score === null ? {} : { score: completion.score }),
    ...(request.return_token_ids === true ? { token_ids: completion.tokenIds } : {}),
  };
}

interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; arguments: string };
}

interface SplitOutput {
  /** Null if the whole output is calls, as in OpenAI's API. */
  readonly content: string | null;
  readonly calls: readonly ToolCall[];
}

function splitOutput(generation: ChatGeneration, text: string): SplitOutput {
  if (generation.createParser === null) return { content: generation.echo + text, calls: [] };
  const parser = generation.createParser();
  const parts = [...parser.push(text), ...parser.finish()];
  const calls = allowedCalls(generation.request, callsOf(parts));
  const content = parts.map((part) => (part.kind === "content" ? part.text : "")).join("");
  const shown = generation.echo + content;
  return { content: shown === "" && calls.length > 0 ? null : shown, calls };
}

function callsOf(parts: readonly OutputPart[]): ToolCall[] {
  const calls: ToolCall[] = [];
  for (const part of parts) {
    if (part.kind === "call") {
      const { id, name } = part;
      calls.push({ id, type: "function", function: { name, arguments: "" } });
    } else if (part.kind === "arguments") {
      const call = calls[part.index];
      if (call !== undefined) call.function.arguments += part.text;
    }
  }
  return calls;
}

function allowedCalls(request: ChatRequest, calls: readonly ToolCall[]): readonly ToolCall[] {
  return request.parallel_tool_calls === false ? calls.slice(0, 1) : calls;
}
