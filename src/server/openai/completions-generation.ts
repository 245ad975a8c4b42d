import type { GenerateOptions, Prompt, TextCodec } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import type { CompletionsRequest } from "./completions-request.ts";
import { checkRoom, deliveryOptions, truncatePrompt } from "./delivery.ts";
import { encodePrompts } from "./prompts.ts";
import { samplingOptions, structuredOutput } from "./sampling-request.ts";
import { TokenWriter } from "./token-text.ts";
import type { UsageCounter } from "./usage.ts";

/** OpenAI's default; a chat answers up to the context instead. */
const completionTokensMax = 16;

/** A completions request, ready for the engine. */
export interface CompletionsGeneration {
  readonly request: CompletionsRequest;
  readonly prompts: readonly Prompt[];
  /** Texts of the prompts, where they are to be echoed. */
  readonly echoes: readonly string[] | null;
  readonly options: GenerateOptions;
  readonly tokens: TokenWriter;
  /** Only prompts are scored (`max_tokens` 0 with `echo`): what is generated is not shown. */
  readonly promptOnly: boolean;
  /** Answers carry ids: asked for, or all that a model without a tokenizer can show. */
  readonly withTokenIds: boolean;
  readonly id: string;
  readonly created: number;
  readonly modelName: string;
  /** Counts the tokens of the prompts and of what is generated. */
  readonly usage: UsageCounter;
}

/** Checks a completions request, encodes what must be, and says how to generate. */
export async function completionsGeneration(
  context: ServerContext,
  request: CompletionsRequest,
  call: Call,
): Promise<CompletionsGeneration> {
  const { codec } = context.model;
  const promptOnly = request.echo === true && request.max_tokens === 0;
  const options = generateOptions(context, request, promptOnly, call);
  const prompts = await preparePrompts(context, request, { options, signal: call.signal });
  return {
    request,
    prompts: prompts.map(({ prompt }) => prompt),
    echoes: request.echo === true ? echoTexts(prompts, codec) : null,
    options,
    tokens: new TokenWriter(codec, request.return_tokens_as_token_ids === true),
    promptOnly,
    withTokenIds: request.return_token_ids === true || codec === null,
    id: `cmpl-${call.id}`,
    created: call.created,
    modelName: request.model ?? context.modelNames[0],
    usage: call.usage,
  };
}

function generateOptions(
  { config }: ServerContext,
  request: CompletionsRequest,
  promptOnly: boolean,
  call: Call,
): GenerateOptions {
  const logprobs = request.logprobs ?? null;
  const echoed = request.echo === true && logprobs !== null;
  const sampling = samplingOptions(
    {
      ...request,
      max_tokens: promptOnly ? 1 : request.max_tokens, // the engine generates at least one
      prompt_logprobs: echoed ? logprobs : request.prompt_logprobs,
    },
    {
      defaults: config.defaultSampling,
      maxTokens: completionTokensMax,
      logprobs,
      structuredOutput: structuredOutput(request),
    },
  );
  return { ...sampling, ...deliveryOptions(request, call) };
}

/** A prompt, ready for the engine, and its text where it was given as one and is whole. */
interface ReadyPrompt {
  readonly prompt: Exclude<Prompt, string>;
  readonly text: string | null;
}

/** Encodes, cuts and checks the prompts. Throws PROMPT_TOO_LONG where the output has no room. */
async function preparePrompts(
  { model }: ServerContext,
  request: CompletionsRequest,
  { options, signal }: { readonly options: GenerateOptions; readonly signal: AbortSignal },
): Promise<ReadyPrompt[]> {
  const { contextTokensMax } = model.info;
  const room = { contextTokensMax, maxTokens: options.maxTokens ?? null };
  const encoded = await encodePrompts(model.codec, request.prompt, {
    addSpecialTokens: request.add_special_tokens ?? true,
    tokensMax: request.truncate_prompt_tokens == null ? contextTokensMax : null,
    signal,
  });
  return encoded.map(({ text, tokenIds }) => {
    const promptTokenIds = truncatePrompt(tokenIds, request, room);
    checkRoom(promptTokenIds.length, contextTokensMax, request);
    const isWhole = promptTokenIds.length === tokenIds.length;
    return { prompt: { promptTokenIds }, text: isWhole ? text : null };
  });
}

function echoTexts(prompts: readonly ReadyPrompt[], codec: TextCodec | null): string[] {
  return prompts.map(({ prompt, text }) => text ?? codec?.decode(prompt.promptTokenIds) ?? "");
}
