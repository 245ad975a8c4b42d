/** POST /v1/chat/completions, without streaming. */
import type { OutputPart } from "#chat";
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
  // Reading an output counts its thinking.
  const choices = result.completions.map((completion) => chatChoice(generation, completion));
  return {
    id: generation.id,
    object: "chat.completion",
    created: generation.created,
    model: generation.modelName,
    choices,
    usage: usage.usage(),
    ...(result.promptLogprobs === null
      ? {}
      : { prompt_logprobs: promptLogprobs(result.promptLogprobs, tokens) }),
    ...(request.return_token_ids === true ? { prompt_token_ids: result.promptTokenIds } : {}),
  };
}

function chatChoice(generation: ChatGeneration, completion: Completion): unknown {
  const { request, tokens } = generation;
  const { content, reasoning, calls } = splitOutput(generation, completion);
  const reason = finishReason(completion.finishReason);
  return {
    index: completion.index,
    message: {
      role: "assistant",
      content,
      refusal: null,
      ...(reasoning === null ? {} : { reasoning_content: reasoning }),
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
  /** Null if the whole output is calls or thinking, as in OpenAI's API. */
  readonly content: string | null;
  /** Null: none, or not asked for. */
  readonly reasoning: string | null;
  readonly calls: readonly ToolCall[];
}

function splitOutput(
  generation: ChatGeneration,
  { text, tokenIds, index }: Completion,
): SplitOutput {
  const { request, echo, createReader, usage } = generation;
  if (createReader === null) return { content: echo + (text ?? ""), reasoning: null, calls: [] };
  const reader = createReader();
  const parts = reader.push(text ?? "", tokenIds, true);
  usage.reason(index, reader.reasoningTokens);
  const calls = allowedCalls(request, callsOf(parts));
  const shown = echo + textOf(parts, "content");
  const thoughts = textOf(parts, "reasoning");
  return {
    content: shown === "" && calls.length + thoughts.length > 0 ? null : shown,
    reasoning: thoughts === "" || request.include_reasoning === false ? null : thoughts,
    calls,
  };
}

function textOf(parts: readonly OutputPart[], kind: "content" | "reasoning"): string {
  return parts.map((part) => (part.kind === kind ? part.text : "")).join("");
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
