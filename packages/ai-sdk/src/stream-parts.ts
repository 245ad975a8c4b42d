import type {
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import type { AnswerUsage, ChatSourceEvent } from "./chat-source.ts";

const TEXT = "text";
const REASONING = "reasoning";

/** Events of an answer as parts of the SDK: runs of text and of thinking have a begin and an end. */
export async function* streamParts(
  events: AsyncIterable<ChatSourceEvent>,
): AsyncGenerator<LanguageModelV4StreamPart> {
  let open: typeof TEXT | typeof REASONING | null = null;
  let runs = 0;
  let id = "";
  for await (const event of events) {
    const kind = event.type === TEXT || event.type === REASONING ? event.type : null;
    if (open !== null && open !== kind) yield { type: `${open}-end`, id };
    if (kind !== null && open !== kind) {
      id = `${kind}-${runs++}`;
      yield { type: `${kind}-start`, id };
    }
    open = kind;
    switch (event.type) {
      case "text":
      case "reasoning":
        yield { type: `${event.type}-delta`, id, delta: event.text };
        break;
      case "tool-call-start":
        yield { type: "tool-input-start", id: event.id, toolName: event.name };
        break;
      case "tool-call-delta":
        yield { type: "tool-input-delta", id: event.id, delta: event.text };
        break;
      case "tool-call": {
        const { id: toolCallId, name: toolName, argumentsText: input } = event.call;
        yield { type: "tool-input-end", id: toolCallId };
        yield { type: "tool-call", toolCallId, toolName, input };
        break;
      }
      case "end": {
        const { finishReason, usage } = event.result;
        yield { type: "finish", finishReason: reasonOf(finishReason), usage: usageOf(usage) };
        break;
      }
      default: // nothing is run in a call of the SDK
    }
  }
}

const REASONS: ReadonlySet<string> = new Set([
  ...["stop", "length", "tool-calls", "error", "interrupted"],
]);

function reasonOf(raw: string): LanguageModelV4FinishReason {
  // The set's members are names of the SDK.
  const unified = (REASONS.has(raw) ? raw : "other") as LanguageModelV4FinishReason["unified"];
  return { unified, raw };
}

function usageOf(usage: AnswerUsage): LanguageModelV4Usage {
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = usage;
  return {
    inputTokens: {
      total: promptTokens,
      noCache: promptTokens - cachedTokens,
      cacheRead: cachedTokens,
      cacheWrite: undefined,
    },
    outputTokens: {
      total: completionTokens,
      text: completionTokens - reasoningTokens,
      reasoning: reasoningTokens,
    },
  };
}
