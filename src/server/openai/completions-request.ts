import { z } from "zod";
import {
  deliveryFields,
  ignoredFields,
  LOGPROBS_MAX,
  samplingFields,
  structureFields,
  unsupported,
  unsupportedFields,
} from "./fields.ts";
import { completionsPerigee } from "./perigee-field.ts";
import { promptField } from "./prompts.ts";

/** Body of POST /v1/completions: OpenAI's fields, then vLLM's. */
export const CompletionsRequest = z.strictObject({
  prompt: promptField,
  ...samplingFields,
  ...structureFields,
  ...deliveryFields,
  ...ignoredFields,
  logprobs: z.int().min(0).max(LOGPROBS_MAX).nullish(),
  add_special_tokens: z.boolean().nullish(),
  perigee: completionsPerigee,
  ...unsupportedFields,
  suffix: unsupported(""),
  best_of: unsupported(1),
});
export type CompletionsRequest = z.output<typeof CompletionsRequest>;
