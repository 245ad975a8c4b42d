/** Converts a request's sampling fields to the engine's options. */
import { z } from "zod";
import { issueText } from "#base";
import { type GenerateOptions, parseOptions, StructuredOutput } from "#engine";
import type { SamplingDefaults } from "../config.ts";
import { requestNames } from "../request-names.ts";
import { samplingFields, structureFields } from "./fields.ts";
import { fieldError, invalidField, pathText } from "./parse-request.ts";

const SamplingRequest = z.object(samplingFields);
const StructureRequest = z.object(structureFields);
type SamplingRequest = z.output<typeof SamplingRequest>;
type StructureRequest = z.output<typeof StructureRequest>;

/** The endpoint's additions to the common sampling fields. */
export interface SamplingExtras {
  readonly defaults: SamplingDefaults;
  /** Maximum new tokens if neither request nor defaults set it; null: up to the context. */
  readonly maxTokens: number | null;
  readonly logprobs: number | null;
  readonly structuredOutput: StructuredOutput | null;
}

/**
 * The engine's options for a request. They are parsed before any prompt is encoded, by the engine's
 * schema and for the engine; errors use the request's field names. Throws INVALID_ARGUMENT.
 */
export function samplingOptions(request: SamplingRequest, extras: SamplingExtras): GenerateOptions {
  const options = namedOptions(request, extras);
  const parsed = parseOptions(options);
  if ("options" in parsed) return parsed.options;
  throw invalidField(parsed.error, options, (path) => requestNames(pathText(path)));
}

function namedOptions(request: SamplingRequest, extras: SamplingExtras): GenerateOptions {
  const beamWidth = beamWidthOf(request);
  const { maxTokens, ...drawing } = extras.defaults;
  // The authors' recommended parameters are for sampling: beam search ignores them.
  const defaults: SamplingDefaults = beamWidth === null ? drawing : {};
  return {
    n: request.n ?? undefined,
    beamWidth,
    lengthPenalty: request.length_penalty ?? undefined,
    earlyStopping: request.early_stopping ?? undefined,
    temperature: request.temperature ?? defaults.temperature,
    topP: request.top_p ?? defaults.topP,
    topK: request.top_k ?? defaults.topK,
    minP: request.min_p ?? defaults.minP,
    repetitionPenalty: request.repetition_penalty ?? defaults.repetitionPenalty,
    presencePenalty: request.presence_penalty ?? undefined,
    frequencyPenalty: request.frequency_penalty ?? undefined,
    seed: request.seed,
    stop: request.stop ?? undefined,
    stopTokenIds: request.stop_token_ids ?? undefined,
    includeStopStrInOutput: request.include_stop_str_in_output ?? undefined,
    ignoreEos: request.ignore_eos ?? undefined,
    minTokens: request.min_tokens ?? undefined,
    maxTokens: request.max_tokens ?? maxTokens ?? extras.maxTokens,
    logprobs: extras.logprobs,
    promptLogprobs: request.prompt_logprobs,
    logitBias: request.logit_bias ?? undefined,
    allowedTokenIds: request.allowed_token_ids,
    badWords: request.bad_words ?? undefined,
    skipSpecialTokens: request.skip_special_tokens ?? undefined,
    spacesBetweenSpecialTokens: request.spaces_between_special_tokens ?? undefined,
    structuredOutput: extras.structuredOutput,
    ...draftOptions(request),
  };
}

function draftOptions({ speculative, prediction }: SamplingRequest): GenerateOptions {
  const content = prediction?.content ?? null;
  const text = Array.isArray(content) ? content.map((part) => part.text).join("") : content;
  const wanted =
    typeof speculative === "object" && speculative !== null
      ? {
          kind: speculative.kind ?? undefined,
          length: speculative.length ?? undefined,
          width: speculative.width ?? undefined,
        }
      : (speculative ?? undefined);
  return { speculative: wanted, prediction: text };
}

/**
 * The number of beams; null: no beam search. As in vLLM, `use_beam_search` alone searches as many
 * beams as are returned. A width of 1 has no effect without it: clients send 1 as a default.
 */
function beamWidthOf(request: SamplingRequest): number | null {
  const { use_beam_search: wanted, beam_width: width } = request;
  if (wanted === true) return width ?? request.n ?? 1;
  if (width == null || width === 1) return null;
  if (wanted === false) {
    throw fieldError("beam_width", `needs use_beam_search to be true, current value is ${width}`);
  }
  return width;
}

/** The requested structured output, or null. Throws if two fields set it, or one is invalid. */
export function structuredOutput(request: StructureRequest): StructuredOutput | null {
  const given = [...formatKinds(request), ...guidedKinds(request), ...outputsKinds(request)];
  if (given.length > 1) {
    const fields = given.map(({ field }) => field).join(" and ");
    throw fieldError(given[1]?.field ?? "", `cannot be combined with others: got ${fields}`);
  }
  const [only] = given;
  if (only === undefined) return null;
  const { field, kind } = only;
  const parsed = StructuredOutput.safeParse(kind, { error: issueText });
  if (parsed.success) return kind;
  throw invalidField(parsed.error, kind, ([_kind, ...inside]) => pathText([field, ...inside]));
}

interface Asked {
  readonly field: string;
  readonly kind: StructuredOutput;
}

function formatKinds({ response_format: format }: StructureRequest): Asked[] {
  const field = "response_format";
  switch (format?.type) {
    case "json_object":
      return [{ field, kind: { jsonObject: true } }];
    case "json_schema": {
      const schema = format.json_schema.schema ?? null;
      return [{ field, kind: schema === null ? { jsonObject: true } : { json: schema } }];
    }
    case "structural_tag":
      return [{ field, kind: { structuralTag: format } }];
    default:
      return [];
  }
}

function guidedKinds(request: StructureRequest): Asked[] {
  return [
    ...asked("guided_json", request.guided_json, (json) => ({ json })),
    ...asked("guided_regex", request.guided_regex, (regex) => ({ regex })),
    ...asked("guided_choice", request.guided_choice, (choice) => ({ choice })),
    ...asked("guided_grammar", request.guided_grammar, (grammar) => ({ grammar })),
  ];
}

function outputsKinds({ structured_outputs: outputs }: StructureRequest): Asked[] {
  if (outputs === null || outputs === undefined) return [];
  const anyObject = outputs.json_object === true ? true : null;
  const kinds = [
    ...asked("structured_outputs.json", outputs.json, (json) => ({ json })),
    ...asked("structured_outputs.json_object", anyObject, () => ({ jsonObject: true })),
    ...asked("structured_outputs.regex", outputs.regex, (regex) => ({ regex })),
    ...asked("structured_outputs.choice", outputs.choice, (choice) => ({ choice })),
    ...asked("structured_outputs.grammar", outputs.grammar, (grammar) => ({ grammar })),
    ...asked("structured_outputs.structural_tag", outputs.structural_tag, (structuralTag) => ({
      structuralTag,
    })),
  ];
  if (kinds.length === 0) {
    throw fieldError(
      "structured_outputs",
      "must have one of json, json_object, regex, choice, grammar, structural_tag",
    );
  }
  return kinds;
}

function asked<Value>(
  field: string,
  value: Value | null | undefined,
  kind: (value: Value) => StructuredOutput,
): Asked[] {
  return value === null || value === undefined ? [] : [{ field, kind: kind(value) }];
}
