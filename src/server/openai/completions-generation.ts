import { EngineError } from "#base";
import type { GenerateOptions, Prompt, TextCodec } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import type { CompletionsRequest } from "./completions-request.ts";
import { deliveryOptions, truncatePrompt } from "./delivery.ts";
import { samplingOptions, structuredOutput } from "./sampling-request.ts";
import { TokenWriter } from "./token-text.ts";

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
  const prompts = await preparePrompts(context, request, options);
  return {
    request,
    prompts,
    echoes: request.echo === true ? echoTexts(prompts, codec) : null,
    options,
    tokens: new TokenWriter(codec, request.return_tokens_as_token_ids === true),
    promptOnly,
    withTokenIds: request.return_token_ids === true || codec === null,
    id: `cmpl-${call.id}`,
    created: call.created,
    modelName: request.model ?? context.modelNames[0],
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

async function preparePrompts(
  { model }: ServerContext,
  request: CompletionsRequest,
  options: GenerateOptions,
): Promise<Prompt[]> {
  const mustEncode = request.add_special_tokens === false || request.truncate_prompt_tokens != null;
  const room = {
    contextTokensMax: model.info.contextTokensMax,
    maxTokens: options.maxTokens ?? null,
  };
  return Promise.all(
    promptList(request.prompt).map(async (prompt) => {
      if (typeof prompt === "string" && !mustEncode) return prompt;
      const ids =
        typeof prompt === "string"
          ? await needCodec(model.codec).encode(prompt, {
              addSpecialTokens: request.add_special_tokens ?? true,
            })
          : prompt;
      return { promptTokenIds: truncatePrompt(ids, request, room) };
    }),
  );
}

function promptList(prompt: CompletionsRequest["prompt"]): readonly (string | number[])[] {
  if (typeof prompt === "string") return [prompt];
  return isTokenIds(prompt) ? [prompt] : prompt;
}

function isTokenIds(prompt: readonly unknown[]): prompt is number[] {
  return typeof prompt[0] === "number"; // the schema has checked the others
}

function echoTexts(prompts: readonly Prompt[], codec: TextCodec | null): string[] {
  return prompts.map((prompt) =>
    typeof prompt === "string" ? prompt : (codec?.decode(prompt.promptTokenIds) ?? ""),
  );
}

/** Throws TOKENIZER_MISSING for a model that has token ids only. */
export function needCodec(codec: TextCodec | null): TextCodec {
  if (codec !== null) return codec;
  throw new EngineError(
    "TOKENIZER_MISSING",
    "Cannot read text: the model has no tokenizer; send token ids instead",
  );
}
