/** Conversations: the model's answers, with its calls run in between. */
import { randomUUID } from "node:crypto";
import { answerReading, callSetting, callUse } from "#chat";
import type {
  ChatCallOptions,
  ChatEvent,
  ChatFinishReason,
  ChatMessage,
  ChatResult,
  ChatTool,
  ChatToolCall,
  ChatUsage,
  FinishReason,
  GenerateOptions,
  ServedModel,
} from "#engine/protocol";
import { checkChat } from "./chat-options.ts";
import { canRunAll, chatToolCall, resultMessage, runTool } from "./chat-tools.ts";
import { checkedMessages } from "./message-check.ts";

/** What answers a conversation. */
export type ChatModel = Pick<
  ServedModel,
  "chatPrompt" | "stream" | "codec" | "chatTemplate" | "info"
>;

/** One answer of the model. */
interface Round {
  text: string;
  reasoning: string;
  readonly calls: { readonly id: string; readonly name: string; text: string }[];
  finishReason: FinishReason;
  usage: ChatUsage;
}

const NO_USAGE: ChatUsage = {
  ...{ promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 },
};

/**
 * Answers the conversation. While the model calls tools that all have handlers, these are run and
 * it is asked again, up to `roundsMax` answers. Throws what `chatPrompt` and `stream` throw.
 */
export async function* chatEvents(
  model: ChatModel,
  messages: readonly ChatMessage[],
  options: ChatCallOptions,
): AsyncGenerator<ChatEvent, void> {
  checkedMessages(messages);
  const { roundsMax, tools } = checkChat(options);
  const { signal } = options;
  const added: ChatMessage[] = [];
  let usage = NO_USAGE;
  for (let rounds = 1; ; rounds++) {
    const asked = { ...options, tools, toolChoice: choiceOf({ ...options, tools }, rounds) };
    const round = newRound();
    yield* answer(model, [...messages, ...added], asked, round);
    usage = sum(usage, round.usage);
    const calls = round.calls.map(({ id, name, text }) => chatToolCall(id, name, text));
    for (const call of calls) yield { type: "tool-call", call };
    added.push(assistantMessage(round, calls));
    // The arguments of an answer that was cut short are not all there.
    const ended = calls.length === 0 || round.finishReason !== "stop";
    if (ended || rounds === roundsMax || !canRunAll(tools, calls)) {
      yield { type: "end", result: resultOf(round, { calls, messages: added, rounds, usage }) };
      return;
    }
    const results = await Promise.all(calls.map((call) => runTool(tools, call, signal)));
    signal?.throwIfAborted();
    for (const result of results) {
      yield { type: "tool-result", ...result };
      added.push(resultMessage(result));
    }
  }
}

/** The whole answer. */
export async function chatResult(events: AsyncIterable<ChatEvent>): Promise<ChatResult> {
  for await (const event of events) if (event.type === "end") return event.result;
  throw new Error("A chat must end with its result");
}

/** Calls are demanded once: an answer shall follow them. */
function choiceOf(
  { toolChoice = "auto", tools = [] }: ChatCallOptions,
  round: number,
): "auto" | "none" | "required" | { readonly name: string } {
  if (tools.length === 0) return "none";
  return round === 1 || toolChoice === "none" ? toolChoice : "auto";
}

function newRound(): Round {
  return { text: "", reasoning: "", calls: [], finishReason: "stop", usage: NO_USAGE };
}

/** One answer; its parts are noted in `round`. */
async function* answer(
  model: ChatModel,
  messages: readonly ChatMessage[],
  options: ChatCallOptions,
  round: Round,
): AsyncGenerator<ChatEvent> {
  const { prompt, reader, generation } = await prepared(model, messages, options);
  const onlyFirst = options.parallelToolCalls === false;
  for await (const item of model.stream(prompt, generation)) {
    const { promptTokenIds, cachedTokens } = item.prompt;
    const ended = item.finishReason !== null;
    const parts = reader.push(item.text ?? "", item.tokenIds, ended);
    round.finishReason = item.finishReason ?? round.finishReason;
    round.usage = {
      ...{ promptTokens: promptTokenIds.length, cachedTokens },
      completionTokens: round.usage.completionTokens + item.tokenIds.length,
      reasoningTokens: reader.reasoningTokens,
    };
    for (const part of parts) {
      if ("index" in part && part.index > 0 && onlyFirst) continue;
      if (part.kind === "content") {
        round.text += part.text;
        yield { type: "text", text: part.text };
      } else if (part.kind === "reasoning") {
        round.reasoning += part.text;
        yield { type: "reasoning", text: part.text };
      } else if (part.kind === "call") {
        round.calls.push({ id: part.id, name: part.name, text: "" });
        yield { type: "tool-call-start", id: part.id, name: part.name };
      } else {
        const call = round.calls[part.index];
        if (call === undefined) continue;
        call.text += part.text;
        yield { type: "tool-call-delta", id: call.id, text: part.text };
      }
    }
  }
}

/** The prompt, how its output is read, and the options of its generation. */
async function prepared(
  model: ChatModel,
  messages: readonly ChatMessage[],
  options: ChatCallOptions,
) {
  const {
    tools = [],
    toolChoice = "auto",
    parallelToolCalls,
    roundsMax: _,
    thinking,
    toolCallFormat = "auto",
    reasoningFormat = "auto",
    chatTemplate,
    templateVariables,
    ...generation
  } = options;
  const shown = toolChoice === "none" ? [] : tools;
  const template = chatTemplate ?? model.chatTemplate ?? null;
  const use = callUse(shown.map(callableOf), {
    setting: shown.length === 0 ? "none" : callSetting(toolCallFormat, template),
    choice: toolChoice === "none" ? "auto" : toolChoice,
    onlyOne: parallelToolCalls === false,
    newId: () => `call_${randomUUID().replaceAll("-", "").slice(0, 24)}`,
  });
  const variables = {
    ...(thinking === undefined ? {} : { enable_thinking: thinking }),
    ...templateVariables,
  };
  const { signal, cacheSalt } = generation;
  const prompt = await model.chatPrompt(messages, {
    ...(shown.length === 0 ? {} : { tools: shown.map(definitionOf) }),
    ...(chatTemplate === undefined ? {} : { chatTemplate }),
    ...(Object.keys(variables).length === 0 ? {} : { templateVariables: variables }),
    ...(signal === undefined ? {} : { signal }),
    ...(cacheSalt === undefined ? {} : { cacheSalt }),
  });
  const structuredOutput =
    use.forced === null ? generation.structuredOutput : { structuralTag: use.forced };
  const reading = answerReading({
    ...{ codec: model.codec, template, setting: reasoningFormat, tools: use, continued: null },
    promptTokenIds: prompt.promptTokenIds,
    isConstrained: structuredOutput != null,
    contextTokensMax: model.info.contextTokensMax,
  });
  const all: GenerateOptions = {
    ...reading.options,
    ...generation,
    // An answer ends by itself: `generate` alone has a short default.
    maxTokens: generation.maxTokens ?? null,
    ...(structuredOutput === undefined ? {} : { structuredOutput }),
  };
  return { prompt, reader: reading.createReader(), generation: all };
}

function callableOf({ name, parameters }: ChatTool) {
  return { name, parameters: parameters ?? null };
}

/** As chat templates expect it. */
function definitionOf({ name, description, parameters }: ChatTool) {
  return {
    type: "function",
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      parameters: parameters ?? { type: "object", properties: {} },
    },
  };
}

function assistantMessage({ text, reasoning }: Round, calls: readonly ChatToolCall[]): ChatMessage {
  const toolCalls = calls.map(({ id, name, argumentsText }) => ({
    ...{ id, type: "function", function: { name, arguments: argumentsText } },
  }));
  return {
    role: "assistant",
    content: text,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: toolCalls }),
  };
}

function resultOf(
  { text, reasoning, finishReason }: Round,
  about: {
    readonly calls: readonly ChatToolCall[];
    readonly messages: readonly ChatMessage[];
    readonly rounds: number;
    readonly usage: ChatUsage;
  },
): ChatResult {
  const { calls: toolCalls, messages, rounds, usage } = about;
  const isCall = finishReason === "stop" && toolCalls.length > 0;
  const reason: ChatFinishReason = isCall ? "tool-calls" : finishReason;
  return {
    ...{ text, reasoning: reasoning === "" ? null : reasoning, toolCalls, messages },
    ...{ finishReason: reason, rounds, usage },
  };
}

function sum(one: ChatUsage, other: ChatUsage): ChatUsage {
  return {
    promptTokens: one.promptTokens + other.promptTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    completionTokens: one.completionTokens + other.completionTokens,
    reasoningTokens: one.reasoningTokens + other.reasoningTokens,
  };
}
