/** From a request's sampling fields to the engine's options. */
import { z } from "zod";
import type { GenerateOptions } from "#engine";
import type { SamplingOptions, StructuredOutput } from "#sampling";
import type { SamplingDefaults } from "../config.ts";
import { samplingFields, structureFields } from "./fields.ts";
import { checkSampling, fieldError } from "./parse-request.ts";

const SamplingRequest = z.object(samplingFields);
const StructureRequest = z.object(structureFields);
type SamplingRequest = z.output<typeof SamplingRequest>;
type StructureRequest = z.output<typeof StructureRequest>;

/** What each field is called by the engine. */
const OPTION_NAMES = {
  n: "n",
  temperature: "temperature",
  top_p: "topP",
  top_k: "topK",
  min_p: "minP",
  repetition_penalty: "repetitionPenalty",
  presence_penalty: "presencePenalty",
  frequency_penalty: "frequencyPenalty",
  seed: "seed",
  stop: "stop",
  stop_token_ids: "stopTokenIds",
  include_stop_str_in_output: "includeStopStrInOutput",
  ignore_eos: "ignoreEos",
  min_tokens: "minTokens",
  max_tokens: "maxTokens",
  prompt_logprobs: "promptLogprobs",
  logit_bias: "logitBias",
  allowed_token_ids: "allowedTokenIds",
  bad_words: "badWords",
  skip_special_tokens: "skipSpecialTokens",
  spaces_between_special_tokens: "spacesBetweenSpecialTokens",
} as const satisfies Record<keyof SamplingRequest, keyof SamplingOptions>;

const FIELD_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries(OPTION_NAMES).map(([field, option]) => [option, field]),
);

/** What an endpoint adds to the fields that all share. */
export interface SamplingExtras {
  readonly defaults: SamplingDefaults;
  /** Most new tokens where neither the request nor the defaults say; null: up to the context. */
  readonly maxTokens: number | null;
  readonly logprobs: number | null;
  readonly structuredOutput: StructuredOutput | null;
}

/** The engine's options for a request, checked. Throws INVALID_ARGUMENT that names the field. */
export function samplingOptions(request: SamplingRequest, extras: SamplingExtras): GenerateOptions {
  const options: Record<string, unknown> = { maxTokens: extras.maxTokens, ...extras.defaults };
  for (const [field, option] of Object.entries(OPTION_NAMES)) {
    const value = request[field as keyof SamplingRequest]; // a key of the same table
    if (value !== null && value !== undefined) options[option] = value;
  }
  if (extras.logprobs !== null) options.logprobs = extras.logprobs;
  if (extras.structuredOutput !== null) options.structuredOutput = extras.structuredOutput;
  checkSampling(options, FIELD_NAMES);
  return options; // every field of it is optional, and their values have just been checked
}

/** What the output must look like, or null. Throws when two fields ask for it. */
export function structuredOutput(request: StructureRequest): StructuredOutput | null {
  const given = [...formatKinds(request), ...guidedKinds(request), ...outputsKinds(request)];
  if (given.length > 1) {
    const fields = given.map(({ field }) => field).join(" and ");
    throw fieldError(given[1]?.field ?? "", `cannot be combined with others: got ${fields}`);
  }
  return given[0]?.kind ?? null;
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
    ...asked("structured_outputs", outputs.json, (json) => ({ json })),
    ...asked("structured_outputs", anyObject, () => ({ jsonObject: true })),
    ...asked("structured_outputs", outputs.regex, (regex) => ({ regex })),
    ...asked("structured_outputs", outputs.choice, (choice) => ({ choice })),
    ...asked("structured_outputs", outputs.grammar, (grammar) => ({ grammar })),
    ...asked("structured_outputs", outputs.structural_tag, (structuralTag) => ({ structuralTag })),
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
