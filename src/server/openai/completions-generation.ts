import type { GeneratedTokens, GenerateOptions, TextCodec, TokenPrompt } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import type { CompletionsRequest } from "./completions-request.ts";
import { checkRoom, deliveryOptions, truncatePrompt } from "./delivery.ts";
import { earlierAnswer, isBegun, kvSourceOption, resumeUsage, unusable } from "./perigee-field.ts";
import { encodePrompts } from "./prompts.ts";
import { samplingOptions, structuredOutput } from "./sampling-request.ts";
import { TokenWriter } from "./token-text.ts";
import type { UsageCounter } from "./usage.ts";

/** OpenAI's default; chat completions use the context's limit instead. */
const completionTokensMax = 16;

/** A validated completions request with its prompts and engine options. */
export interface CompletionsGeneration {
  readonly request: CompletionsRequest;
  readonly prompts: readonly TokenPrompt[];
  /** Texts of the prompts if they are echoed; otherwise null. */
  readonly echoes: readonly string[] | null;
  readonly options: GenerateOptions;
  readonly tokens: TokenWriter;
  /** Only prompts are scored (`max_tokens` 0 with `echo`): generated tokens are not shown. */
  readonly promptOnly: boolean;
  /** Answers contain token ids: on request, or because the model has no tokenizer. */
  readonly withTokenIds: boolean;
  readonly id: string;
  readonly created: number;
  readonly modelName: string;
  /** Counts prompt tokens and generated tokens. */
  readonly usage: UsageCounter;
  /** What another worker generated, by prompt and sequence; null: the answer begins here. */
  readonly earlier: readonly (readonly GeneratedTokens[])[] | null;
  /** The stream tells which tokens it contains. */
  readonly withMarkers: boolean;
}

/** Checks a completions request, encodes its texts, and derives the engine's options. */
export async function completionsGeneration(
  context: ServerContext,
  request: CompletionsRequest,
  call: Call,
): Promise<CompletionsGeneration> {
  const { codec } = context.model;
  const promptOnly = request.echo === true && request.max_tokens === 0;
  const options = {
    ...generateOptions(context, request, promptOnly, call),
    ...kvSourceOption(request.perigee),
  };
  const prompts = await preparePrompts(context, request, { options, signal: call.signal });
  const { perigee } = request;
  const { n = 1, beamWidth } = options;
  const earlier = earlierAnswer(request, {
    ...{ prompts: prompts.length, n, isBeamSearch: beamWidth != null },
  });
  if (earlier !== null) {
    if (options.promptLogprobs != null) checkPromptsTold(earlier.generated);
    resumeUsage(call.usage, earlier);
  }
  return {
    request,
    prompts: prompts.map(({ prompt }, place) => {
      const generated = earlier?.generated[place];
      return {
        ...prompt,
        ...(generated?.some(isBegun) && { generated }),
        // Choices are numbered through: equal prompts have different draws.
        ...(perigee?.seed != null && { seed: perigee.seed + place * n }),
      };
    }),
    echoes: request.echo === true ? echoTexts(prompts, codec) : null,
    options,
    tokens: new TokenWriter(codec, request.return_tokens_as_token_ids === true),
    promptOnly,
    withTokenIds: request.return_token_ids === true || codec === null,
    id: `cmpl-${call.id}`,
    created: perigee?.created ?? call.created,
    modelName: request.model ?? context.modelNames[0],
    usage: call.usage,
    earlier: earlier?.generated ?? null,
    withMarkers: perigee?.markers === true,
  };
}

/** Log-probabilities of a prompt come with the first chunk of each choice, and are made once. */
function checkPromptsTold(generated: readonly (readonly GeneratedTokens[])[]): void {
  const isPart = (sequences: readonly GeneratedTokens[]) =>
    sequences.some(isBegun) && !sequences.every(isBegun);
  if (!generated.some(isPart)) return;
  throw unusable("no choice may lack tokens where others have some, and the prompt's logprobs");
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

/** A prompt for the engine, and its text if it was given as text and is not truncated. */
interface ReadyPrompt {
  readonly prompt: TokenPrompt;
  readonly text: string | null;
}

/** Encodes, truncates and checks prompts. Throws PROMPT_TOO_LONG if the output has no room. */
async function preparePrompts(
  { model }: ServerContext,
  request: CompletionsRequest,
  { options, signal }: { readonly options: GenerateOptions; readonly signal: AbortSignal },
): Promise<ReadyPrompt[]> {
  const { contextTokensMax } = model.info;
  const room = { contextTokensMax, maxTokens: options.maxTokens ?? null };
  const encoded = await encodePrompts(model.codec, request.prompt, {
    addSpecialTokens: request.add_special_tokens ?? true,
    cacheSalt: request.cache_salt ?? null,
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
