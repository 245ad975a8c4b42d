import type { LanguageModelV4CallOptions, SharedV4Warning } from "@ai-sdk/provider";
import type { ChatRequest } from "./chat-source.ts";
import { messagesOf } from "./messages.ts";
import { type PerigeeOptions, perigeeOptions } from "./options.ts";

/** A call of the SDK as a request, and what of it has no effect. */
export interface RequestOfCall {
  readonly request: ChatRequest;
  readonly warnings: SharedV4Warning[];
}

/** Throws UnsupportedFunctionalityError and InvalidArgumentError. */
export function requestOf(call: LanguageModelV4CallOptions): RequestOfCall {
  const options = perigeeOptions(call.providerOptions);
  const warnings: SharedV4Warning[] = [];
  const tools = toolsOf(call, warnings);
  const thinking = options.thinking ?? thinkingOf(call.reasoning);
  const { retention, cacheSalt, priority, parallelToolCalls, templateVariables } = options;
  return {
    warnings,
    request: {
      messages: messagesOf(call.prompt),
      tools,
      toolChoice: choiceOf(call, tools.length > 0),
      sampling: samplingOf(call, options),
      output: outputOf(call),
      ...(parallelToolCalls === undefined ? {} : { parallelToolCalls }),
      ...(thinking === undefined ? {} : { thinking }),
      ...(templateVariables === undefined ? {} : { templateVariables }),
      ...(retention === undefined ? {} : { retention }),
      ...(cacheSalt === undefined ? {} : { cacheSalt }),
      ...(priority === undefined ? {} : { priority }),
      ...(call.abortSignal === undefined ? {} : { signal: call.abortSignal }),
      ...(call.headers === undefined ? {} : { headers: call.headers }),
    },
  };
}

function toolsOf(
  { tools = [] }: LanguageModelV4CallOptions,
  warnings: SharedV4Warning[],
): ChatRequest["tools"][number][] {
  return tools.flatMap((tool) => {
    if (tool.type !== "function") {
      warnings.push({ type: "unsupported", feature: `the provider's tool ${tool.name}` });
      return [];
    }
    const { name, description, inputSchema } = tool;
    // A schema is a JSON object.
    const parameters = inputSchema as Record<string, unknown>;
    return [{ name, ...(description === undefined ? {} : { description }), parameters }];
  });
}

function choiceOf(
  { toolChoice }: LanguageModelV4CallOptions,
  hasTools: boolean,
): ChatRequest["toolChoice"] {
  if (!hasTools) return "none";
  if (toolChoice === undefined) return "auto";
  return toolChoice.type === "tool" ? { name: toolChoice.toolName } : toolChoice.type;
}

function thinkingOf(reasoning: LanguageModelV4CallOptions["reasoning"]): boolean | undefined {
  if (reasoning === undefined || reasoning === "provider-default") return undefined;
  return reasoning !== "none";
}

function samplingOf(
  call: LanguageModelV4CallOptions,
  { speculative }: PerigeeOptions,
): ChatRequest["sampling"] {
  const { maxOutputTokens, temperature, topP, topK, presencePenalty, frequencyPenalty } = call;
  const { seed, stopSequences } = call;
  return {
    ...(maxOutputTokens === undefined ? {} : { maxTokens: maxOutputTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { topP }),
    ...(topK === undefined ? {} : { topK }),
    ...(presencePenalty === undefined ? {} : { presencePenalty }),
    ...(frequencyPenalty === undefined ? {} : { frequencyPenalty }),
    ...(seed === undefined ? {} : { seed }),
    ...(stopSequences === undefined ? {} : { stop: stopSequences }),
    ...(speculative === undefined ? {} : { speculative }),
  };
}

function outputOf({ responseFormat }: LanguageModelV4CallOptions): ChatRequest["output"] {
  if (responseFormat?.type !== "json") return null;
  const { schema } = responseFormat;
  // A schema is a JSON object.
  return schema === undefined ? { jsonObject: true } : { json: schema as Record<string, unknown> };
}
