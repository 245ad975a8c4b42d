import { type AnswerReader, answerReading } from "#chat";
import type {
  GeneratedTokens,
  GenerateOptions,
  RetentionConfig,
  ServedModel,
  StructuredOutput,
  TokenPrompt,
} from "#engine";
import type { Call, ServerContext } from "../context.ts";
import { type ChatRequest, templateMessages } from "./chat-request.ts";
import { checkRoom, deliveryOptions, truncatePrompt } from "./delivery.ts";
import { fieldError } from "./parse-request.ts";
import { earlierAnswer, kvSourceOption, resumeUsage } from "./perigee-field.ts";
import { moveNoise } from "./prompt-noise.ts";
import { samplingOptions, structuredOutput } from "./sampling-request.ts";
import { TokenWriter } from "./token-text.ts";
import { toolUse } from "./tools.ts";
import type { UsageCounter } from "./usage.ts";

/** A validated chat request with its rendered prompt and engine options. */
export interface ChatGeneration {
  readonly request: ChatRequest;
  readonly prompt: TokenPrompt;
  readonly options: GenerateOptions;
  /** Reads one sequence: thinking, answer, calls; null: all text is content. */
  readonly createReader: (() => AnswerReader) | null;
  readonly tokens: TokenWriter;
  /** Text before each answer: with `echo`, the continued message; otherwise "". */
  readonly echo: string;
  readonly logprobs: boolean;
  readonly id: string;
  readonly created: number;
  readonly modelName: string;
  /** Counts prompt tokens and generated tokens. */
  readonly usage: UsageCounter;
  /** What another worker generated, by sequence; null: the answer begins here. */
  readonly earlier: readonly GeneratedTokens[] | null;
  /** The stream tells which tokens it contains. */
  readonly withMarkers: boolean;
}

/** What other APIs than OpenAI's want of a chat. */
export interface ChatWishes {
  /** More new tokens than there is room for mean as many as there is room for. */
  readonly mayExceedContext?: boolean;
  /** Retention that depends on the prompt; null: none. `movedNoise` names what was moved in it. */
  readonly retentionOf?: (
    promptTokenIds: readonly number[],
    movedNoise: readonly string[],
  ) => Promise<RetentionConfig | null>;
}

/** Checks a chat request, renders its messages, and derives the engine's options. */
export async function chatGeneration(
  context: ServerContext,
  request: ChatRequest,
  call: Call,
  wishes: ChatWishes = {},
): Promise<ChatGeneration> {
  const { model, config } = context;
  const template = request.chat_template ?? model.chatTemplate ?? null;
  const tools = toolUse(request, config.toolCallParser, { template, newId: context.newId });
  const ownOptions = chatOptions(context, request, { call, forced: tools.structuredOutput });
  const { perigee } = request;
  const earlier = earlierAnswer(request, {
    ...{ prompts: 1, n: ownOptions.n ?? 1, isBeamSearch: ownOptions.beamWidth != null },
  });
  const promptTokenIds = await promptOf(context, request, {
    ...{ tools: tools.shown, maxTokens: ownOptions.maxTokens ?? null, signal: call.signal },
  });
  const { contextTokensMax } = model.info;
  if (wishes.mayExceedContext !== true) {
    checkRoom(promptTokenIds.length, contextTokensMax, request);
  }
  const reading = answerReading({
    ...{ codec: model.codec, template, promptTokenIds, tools, contextTokensMax },
    setting: config.reasoningParser,
    continued: request.continue_final_message === true ? continuedText(request) : null,
    isConstrained: ownOptions.structuredOutput != null && ownOptions.beamWidth == null,
  });
  const moved = config.moveKnownNoise ? moveNoise(request.messages).moved : [];
  call.usage.moved(moved);
  const retention = await wishes.retentionOf?.(promptTokenIds, moved);
  const generated = earlier?.generated[0] ?? null;
  if (earlier !== null) resumeUsage(call.usage, earlier);
  return {
    request,
    prompt: {
      promptTokenIds,
      ...(generated !== null && { generated }),
      ...(perigee?.seed != null && { seed: perigee.seed }),
    },
    options: { ...ownOptions, ...reading.options, ...(retention != null && { retention }) },
    createReader: reading.isPlain ? null : reading.createReader,
    tokens: new TokenWriter(model.codec, request.return_tokens_as_token_ids === true),
    echo: request.echo === true ? continuedText(request) : "",
    logprobs: request.logprobs === true,
    id: `chatcmpl-${call.id}`,
    created: perigee?.created ?? call.created,
    modelName: request.model ?? context.modelNames[0],
    usage: call.usage,
    earlier: generated,
    withMarkers: perigee?.markers === true,
  };
}

interface OptionParts {
  readonly call: Call;
  /** What makes the output calls; null: nothing does. */
  readonly forced: StructuredOutput | null;
}

function chatOptions(
  { config }: ServerContext,
  request: ChatRequest,
  { call, forced }: OptionParts,
): GenerateOptions {
  const structure = structuredOutput(request);
  return {
    ...samplingOptions(
      { ...request, max_tokens: request.max_completion_tokens ?? request.max_tokens },
      {
        defaults: config.defaultSampling,
        maxTokens: null,
        logprobs: chatLogprobCount(request),
        structuredOutput: forced ?? structure,
      },
    ),
    ...deliveryOptions(request, call),
    ...kvSourceOption(request.perigee),
  };
}

interface PromptMaking {
  readonly tools: readonly unknown[];
  readonly maxTokens: number | null;
  readonly signal: AbortSignal;
}

/** The ids that a router has made, or else the rendered conversation's; truncated as asked for. */
async function promptOf(
  context: ServerContext,
  request: ChatRequest,
  { tools, maxTokens, signal }: PromptMaking,
): Promise<number[]> {
  const { contextTokensMax } = context.model.info;
  const tokensMax = request.truncate_prompt_tokens == null ? contextTokensMax : null;
  const ids =
    request.perigee?.prompt_token_ids ??
    (await chatTokens(context, request, { tools, tokensMax, signal }));
  return truncatePrompt(ids, request, { contextTokensMax, maxTokens });
}

/** The fields of a chat request that determine its prompt. */
export type ConversationRequest = Pick<
  ChatRequest,
  | "messages"
  | "chat_template"
  | "chat_template_kwargs"
  | "reasoning_effort"
  | "add_generation_prompt"
  | "continue_final_message"
> &
  Partial<Pick<ChatRequest, "cache_salt">>;

/** The inputs of `chatTokens` beside the conversation. */
interface Conversing {
  readonly tools: readonly unknown[];
  /** Longer conversations are rejected early if this can be detected; null: no limit. */
  readonly tokensMax: number | null;
  readonly signal: AbortSignal;
}

/** What renders conversations. */
interface Renderer {
  readonly model: Pick<ServedModel, "chatPrompt">;
  readonly config: Pick<ServerContext["config"], "allowRequestChatTemplate" | "moveKnownNoise">;
}

/** The tokens of a rendered conversation. */
export async function chatTokens(
  { model, config }: Renderer,
  request: ConversationRequest,
  { tools, tokensMax, signal }: Conversing,
): Promise<number[]> {
  const continues = request.continue_final_message === true;
  const generates = request.add_generation_prompt ?? !continues;
  if (continues && generates) {
    throw fieldError("continue_final_message", "needs add_generation_prompt to be false");
  }
  const { chat_template: template } = request;
  const variables = templateVariables(request);
  if (typeof template === "string" && !config.allowRequestChatTemplate) {
    throw fieldError(
      "chat_template",
      "it is code that would run in the server; allow it with the option allowRequestChatTemplate",
    );
  }
  const messages = config.moveKnownNoise ? moveNoise(request.messages).messages : request.messages;
  const { promptTokenIds } = await model.chatPrompt(templateMessages(messages), {
    addGenerationPrompt: generates,
    continueFinalMessage: continues,
    tokensMax,
    signal,
    ...(tools.length > 0 ? { tools } : {}),
    ...(typeof template === "string" ? { chatTemplate: template } : {}),
    ...(typeof request.cache_salt === "string" ? { cacheSalt: request.cache_salt } : {}),
    ...(variables === null ? {} : { templateVariables: variables }),
  });
  return promptTokenIds;
}

/** Thinking models have a switch in their templates; null: nothing is set. */
function templateVariables({
  chat_template_kwargs: given,
  reasoning_effort: effort,
}: ConversationRequest): Readonly<Record<string, unknown>> | null {
  if (effort !== "none") return given ?? null;
  return { enable_thinking: false, ...given };
}

function chatLogprobCount(request: ChatRequest): number | null {
  const top = request.top_logprobs ?? null;
  if (request.logprobs === true) return top ?? 0;
  if (top !== null && top > 0) throw fieldError("top_logprobs", "needs logprobs to be true");
  return null;
}

function continuedText(request: ChatRequest): string {
  const last = request.messages.at(-1);
  return last?.role === "assistant" && typeof last.content === "string" ? last.content : "";
}
