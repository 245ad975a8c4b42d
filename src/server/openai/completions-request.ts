import { z } from "zod";
import {
  deliveryFields,
  ignoredFields,
  LOGPROBS_MAX,
  PROMPTS_MAX,
  samplingFields,
  structureFields,
  tokenIds,
  unsupported,
  unsupportedFields,
} from "./fields.ts";

/** Body of POST /v1/completions: OpenAI's fields, then vLLM's. */
export const CompletionsRequest = z.strictObject({
  prompt: z.union(
    [
      z.string(),
      z.array(z.string()).min(1).max(PROMPTS_MAX),
      tokenIds,
      z.array(tokenIds).min(1).max(PROMPTS_MAX),
    ],
    "must be text, a list of texts, token ids, or a list of lists of token ids",
  ),
  ...samplingFields,
  ...structureFields,
  ...deliveryFields,
  ...ignoredFields,
  logprobs: z.int().min(0).max(LOGPROBS_MAX).nullish(),
  add_special_tokens: z.boolean().nullish(),
  ...unsupportedFields,
  suffix: unsupported(""),
  best_of: unsupported(1),
});
export type CompletionsRequest = z.output<typeof CompletionsRequest>;
