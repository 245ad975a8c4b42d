import { z } from "zod";

const tokenId = z.int().nonnegative();
const penalty = z.number().min(-2).max(2).default(0);

/** Temperatures below this are greedy; between it and `temperatureFloor` they are raised. */
const greedyBelow = 1e-5;
const temperatureFloor = 0.01;
const biasLimit = 100;

/** What the output must match: exactly one of the kinds. */
export const StructuredOutput = z
  .strictObject({
    json: z
      .union([z.string(), z.record(z.string(), z.unknown())])
      .optional()
      .describe("JSON schema, as text or object."),
    jsonObject: z.literal(true).optional().describe("Any JSON object."),
    regex: z.string().min(1).optional().describe("Regular expression, matched as a whole."),
    choice: z.array(z.string().min(1)).min(1).optional().describe("One of these strings."),
    grammar: z.string().min(1).optional().describe("EBNF grammar with a `root` rule."),
    structuralTag: z
      .union([z.string(), z.record(z.string(), z.unknown())])
      .optional()
      .describe("Structural tags (xgrammar): free text with constrained parts."),
  })
  .refine((kinds) => Object.values(kinds).filter((kind) => kind !== undefined).length === 1, {
    error: "needs exactly one of json, jsonObject, regex, choice, grammar, structuralTag",
  });
export type StructuredOutput = z.output<typeof StructuredOutput>;

/** How tokens are drawn and when a sequence ends. Names, ranges and defaults are vLLM's. */
export const SamplingParams = z
  .strictObject({
    n: z.int().min(1).max(16384).default(1).describe("Sequences per prompt."),
    temperature: z
      .number()
      .min(0)
      .max(2)
      .default(1)
      .transform((value) => (value < greedyBelow ? 0 : Math.max(value, temperatureFloor)))
      .describe("0 is greedy; values in (0, 0.01) are raised to 0.01."),
    topP: z.number().gt(0).max(1).default(1).describe("Nucleus: smallest set with this mass."),
    topK: z
      .int()
      .min(-1)
      .default(0)
      .transform((value) => Math.max(value, 0))
      .describe("Keep the k likeliest; -1 and 0: all."),
    minP: z.number().min(0).max(1).default(0).describe("Drop below this share of the likeliest."),
    repetitionPenalty: z.number().gt(0).max(1e6).default(1),
    presencePenalty: penalty,
    frequencyPenalty: penalty,
    seed: z
      .union([z.int(), z.bigint()])
      .nullish()
      .transform((value) => (value === undefined || value === -1 ? null : value))
      .describe("Same seed, same tokens, whatever else runs. null or -1: a fresh one."),
    stop: z
      .union([z.string().min(1), z.array(z.string().min(1)).max(64)])
      .default([])
      .transform((value) => (typeof value === "string" ? [value] : value))
      .describe("Strings that end the output."),
    stopTokenIds: z.array(tokenId).max(256).default([]).describe("Tokens that end the output."),
    includeStopStrInOutput: z.boolean().default(false),
    ignoreEos: z.boolean().default(false).describe("Do not end at the model's end tokens."),
    minTokens: z.int().nonnegative().default(0).describe("No end before this many tokens."),
    maxTokens: z
      .int()
      .positive()
      .nullish()
      .default(16)
      .transform((value) => value ?? null)
      .describe("Most new tokens; null: up to the context."),
    logprobs: z
      .int()
      .min(-1)
      .nullish()
      .transform((value) => value ?? null)
      .describe("Log-probabilities of the k likeliest beside the drawn one; -1: whole vocabulary."),
    promptLogprobs: z
      .int()
      .min(-1)
      .nullish()
      .transform((value) => value ?? null)
      .describe("The same for every prompt token but the first."),
    logitBias: z
      .record(z.string().regex(/^\d+$/), z.number())
      .default({})
      .transform((bias) =>
        Object.entries(bias).map(([token, value]) => ({
          token: Number(token),
          value: Math.min(Math.max(value, -biasLimit), biasLimit),
        })),
      )
      .describe("Added to logits, by token id; clamped to ±100."),
    allowedTokenIds: z
      .array(tokenId)
      .min(1)
      .nullish()
      .transform((value) => value ?? null),
    badWords: z.array(z.string().min(1)).default([]).describe("Texts that must not appear."),
    detokenize: z.boolean().default(true),
    skipSpecialTokens: z.boolean().default(true),
    spacesBetweenSpecialTokens: z.boolean().default(true),
    structuredOutput: StructuredOutput.nullish().transform((value) => value ?? null),
    skipReadingPrefixCache: z
      .boolean()
      .nullish()
      .transform((value) => value ?? null)
      .describe("Default: true when promptLogprobs is set."),
  })
  .refine((params) => params.temperature > 0 || params.n === 1, {
    path: ["n"],
    error: "must be 1 with greedy sampling (temperature 0)",
  })
  .refine((params) => params.maxTokens === null || params.minTokens <= params.maxTokens, {
    path: ["minTokens"],
    error: "must be at most maxTokens",
  })
  .refine((params) => params.stop.length === 0 || params.detokenize, {
    path: ["stop"],
    error: "needs detokenize",
  })
  // Greedy ignores what only shapes a distribution.
  .transform((params) =>
    params.temperature === 0 ? { ...params, topP: 1, topK: 0, minP: 0 } : params,
  )
  .readonly();
/** Validated, defaults filled in. */
export type SamplingParams = z.output<typeof SamplingParams>;
/** What a caller writes. */
export type SamplingOptions = z.input<typeof SamplingParams>;
