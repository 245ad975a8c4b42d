import { z } from "zod";
import { beamFields, beamProblems } from "./beam-params.ts";
import { anyObject } from "./config.ts";

const tokenId = z.int().nonnegative();
const penalty = z.number().min(-2).max(2).default(0);

/** Temperatures below this are greedy; between it and `temperatureFloor` they are raised. */
const greedyBelow = 1e-5;
const temperatureFloor = 0.01;
const topPFloor = 1e-6;
const biasLimit = 100;
const logprobTokenIdsMax = 128;
/** Marks of a few families. */
const shownTokensMax = 64;
const logitBiasMax = 16_384;
/** The size of the largest vocabularies. */
const allowedTokensMax = 262_144;
/** All are part of one grammar. */
const choicesMax = 16_384;
/** Bound of the work: every token of a sequence is compared with those of every pattern. */
const patternTokensMost = 256;
const patternCountMost = 1024;
const INT32_MAX = 2 ** 31 - 1;
/** Seeds are 64 bits, with a sign or without. */
const SEED_MIN = -(2n ** 63n);
const SEED_MAX = 2n ** 64n - 1n;
/** Characters of a stop string: the most that a stream holds back. */
const stopLengthMax = 1024;
const stopString = z.string().min(1).max(stopLengthMax);
/** Each costs every step of its sequence a comparison. */
const badWordsMax = 1024;
const badWordLengthMax = 256;

/** Fields of vLLM's that have no meaning here, with the alternative. */
const outputKind = z.undefined({ error: "is not an option: use generate() or stream()" });
const flatLogprobs = z.undefined({ error: "is not an option: it is a memory layout of Python's" });

/** What an output can be constrained by. */
interface StructuredKinds {
  readonly json: string | Readonly<Record<string, unknown>>;
  readonly jsonObject: true;
  readonly regex: string;
  readonly choice: string[];
  readonly grammar: string;
  readonly structuralTag: string | Readonly<Record<string, unknown>>;
}

/** One kind alone: the others may be there as undefined. */
type Only<Kind extends keyof StructuredKinds> = Pick<StructuredKinds, Kind> & {
  readonly [Other in Exclude<keyof StructuredKinds, Kind>]?: undefined;
};

/** The constraint of the output: exactly one of the kinds. */
export type StructuredOutput = {
  [Kind in keyof StructuredKinds]: Only<Kind>;
}[keyof StructuredKinds];

/** Its schema, whose type says that kinds exclude each other. */
export const StructuredOutput = z
  .strictObject({
    json: z.union([z.string(), anyObject]).optional().describe("JSON schema, as text or object."),
    jsonObject: z.literal(true).optional().describe("Any JSON object."),
    regex: z.string().min(1).optional().describe("Regular expression, matched as a whole."),
    choice: z
      .array(z.string().min(1))
      .min(1)
      .max(choicesMax)
      .optional()
      .describe(`One of these strings: at most ${choicesMax}.`),
    grammar: z.string().min(1).optional().describe("EBNF grammar with a rule named `root`."),
    structuralTag: z
      .union([z.string(), anyObject])
      .optional()
      .describe("Structural tags (in xgrammar's form): free text with constrained parts."),
  })
  .refine((kinds) => Object.values(kinds).filter((kind) => kind !== undefined).length === 1, {
    error: "needs exactly one of json, jsonObject, regex, choice, grammar, structuralTag",
  }) as unknown as z.ZodType<StructuredOutput, StructuredOutput>;

/** Ends a sequence that repeats itself: one pattern, `count` times in a row, at its end. */
const RepetitionDetection = z
  .strictObject({
    patternTokensMax: z.int().min(1).max(patternTokensMost).describe("Longest pattern, in tokens."),
    patternTokensMin: z.int().min(1).default(1).describe("Shortest pattern, in tokens."),
    count: z.int().min(2).max(patternCountMost).describe("Repetitions in a row."),
  })
  .refine((rule) => rule.patternTokensMin <= rule.patternTokensMax, {
    path: ["patternTokensMin"],
    error: "must be at most patternTokensMax",
  });

/** Kinds of drafts. */
export const DRAFT_KINDS = ["lookup", "redrafter", "medusa", "draft-model", "eagle3"] as const;
export type DraftKind = (typeof DRAFT_KINDS)[number];
/** Drafted tokens of a sequence in one step: with the token before them, the nodes of a tree. */
export const DRAFT_LENGTH_MAX = 63;
/** Continuations of a sequence in one step. */
export const DRAFT_WIDTH_MAX = 16;

const kindLengthMax = 64;

/** How tokens are drafted for a request; it changes the speed of the output, not its tokens. */
const RequestDrafts = z.union([
  z.boolean(),
  z.strictObject({
    // Which kinds there are depends on what was loaded with the model.
    kind: z.string().min(1).max(kindLengthMax).optional().describe("Default: the model's kind."),
    length: z
      .int()
      .min(1)
      .max(DRAFT_LENGTH_MAX)
      .optional()
      .describe("Most drafted tokens in one step, of one continuation. Default: the model's."),
    width: z
      .int()
      .min(1)
      .max(DRAFT_WIDTH_MAX)
      .optional()
      .describe("Most drafted continuations in one step. Default: the model's."),
  }),
]);

/** How tokens are sampled and when a sequence ends. Names, ranges and defaults are vLLM's. */
export const SamplingParams = z
  .strictObject({
    n: z.int().min(1).max(16384).default(1).describe("Sequences per prompt."),
    ...beamFields,
    temperature: z
      .number()
      .min(0)
      .max(2)
      .default(1)
      .transform((value) => (value < greedyBelow ? 0 : Math.max(value, temperatureFloor)))
      .describe("Below 1e-5 sampling is greedy; other values below 0.01 are raised to 0.01."),
    topP: z
      .number()
      .gt(0)
      .max(1)
      .default(1)
      // Devices take 32 bits, where a smaller value may round to 0: an empty set. The likeliest
      // token has more.
      .transform((value) => Math.max(value, topPFloor))
      .describe(
        "Nucleus sampling: the smallest set of likeliest tokens with this total probability.",
      ),
    topK: z
      .int()
      .min(-1)
      .default(0)
      // Devices take 32 bits; no vocabulary has as many tokens.
      .transform((value) => Math.min(Math.max(value, 0), INT32_MAX))
      .describe("Keep the k likeliest tokens; -1 and 0: all."),
    minP: z
      .number()
      .min(0)
      .max(1)
      .default(0)
      .describe("Drop tokens below this share of the likeliest token's probability."),
    repetitionPenalty: z
      .number()
      .min(1e-6)
      .max(1e6)
      .default(1)
      .describe("Above 1: tokens of prompt and output become less likely."),
    presencePenalty: penalty.describe("Subtracted from logits of tokens in the output."),
    frequencyPenalty: penalty.describe(
      "Subtracted from a token's logit for each time that it was generated.",
    ),
    seed: z
      .union([z.int(), z.bigint().min(SEED_MIN).max(SEED_MAX)])
      .nullish()
      .transform((value) => (value === undefined || value === -1 ? null : value))
      .describe(
        "The same seed gives the same tokens, whatever else runs; null or -1: a random seed.",
      ),
    stop: z
      .union([stopString, z.array(stopString).max(64)])
      .default([])
      .transform((value) => (typeof value === "string" ? [value] : value))
      .describe(`Strings that end the output: at most 64, of at most ${stopLengthMax} characters.`),
    stopTokenIds: z.array(tokenId).max(256).default([]).describe("Tokens that end the output."),
    includeStopStrInOutput: z
      .boolean()
      .default(false)
      .describe("Keep the stop string in the output."),
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
      .describe(
        "Log-probabilities of the k likeliest tokens and the sampled one; -1: of all tokens.",
      ),
    promptLogprobs: z
      .int()
      .min(-1)
      .nullish()
      .transform((value) => value ?? null)
      .describe(
        "Log-probabilities of the k likeliest tokens at each prompt token but the first; -1: " +
          "of all tokens.",
      ),
    logprobTokenIds: z
      .array(tokenId)
      .min(1)
      .max(logprobTokenIdsMax)
      .nullish()
      .transform((value) => value ?? null)
      .describe("Log-probabilities of these tokens and the sampled one, instead of the likeliest."),
    logitBias: z
      .record(z.string().regex(/^\d+$/), z.number())
      .refine((bias) => Object.keys(bias).length <= logitBiasMax, {
        error: `must name at most ${logitBiasMax} tokens`,
      })
      .default({})
      .transform((bias) =>
        Object.entries(bias).map(([token, value]) => ({
          token: Number(token),
          value: Math.min(Math.max(value, -biasLimit), biasLimit),
        })),
      )
      .describe(
        `Added to logits, by token id, of at most ${logitBiasMax} tokens; clamped to ±100.`,
      ),
    allowedTokenIds: z
      .array(tokenId)
      .min(1)
      .max(allowedTokensMax)
      .nullish()
      .transform((value) => value ?? null)
      .describe(`Only these tokens, at most ${allowedTokensMax}, may be sampled.`),
    badWords: z
      .array(z.string().min(1).max(badWordLengthMax))
      .max(badWordsMax)
      .default([])
      .describe(
        `Texts that must not appear: at most ${badWordsMax}, of at most ${badWordLengthMax} ` +
          "characters.",
      ),
    detokenize: z.boolean().default(true).describe("False: token ids only."),
    skipSpecialTokens: z.boolean().default(true).describe("Leave special tokens out of text."),
    shownTokenIds: z
      .array(tokenId)
      .max(shownTokensMax)
      .default([])
      .describe(
        `At most ${shownTokensMax} special tokens that the text keeps though others are left out.`,
      ),
    spacesBetweenSpecialTokens: z
      .boolean()
      .default(true)
      .describe("False: no spaces between special tokens in the text."),
    structuredOutput: StructuredOutput.nullish()
      .transform((value) => value ?? null)
      .describe("What the output must match: exactly one of these kinds."),
    skipReadingPrefixCache: z
      .boolean()
      .nullish()
      .transform((value) => value ?? null)
      .describe("Compute the whole prompt, cached or not. Default: when promptLogprobs is set."),
    thinkingTokenBudget: z
      .int()
      .min(-1)
      .nullish()
      .transform((value) => (value === undefined || value === -1 ? null : value))
      .describe(
        "Most tokens between a reasoning model's marks; null or -1: no limit. With it, " +
          "structuredOutput applies to the text after the marks.",
      ),
    repetitionDetection: RepetitionDetection.nullish()
      .transform((value) => value ?? null)
      .describe("Ends a sequence that repeats one pattern at its end."),
    speculative: RequestDrafts.default(true).describe(
      "false: draft no tokens. {kind, length}: draft like this, where the model has such drafts.",
    ),
    prediction: z
      .string()
      .nullish()
      .transform((value) => value ?? null)
      .describe("A text that the output is likely to repeat: drafts are looked up in it, too."),
    streamInterval: z.int().min(1).default(1).describe("Tokens per item of a stream, at least."),
    extraArgs: anyObject
      .nullish()
      .transform((value) => value ?? null)
      .describe("Accepted for compatibility; has no effect."),
    outputKind: outputKind.optional(),
    flatLogprobs: flatLogprobs.optional(),
  })
  .refine((params) => params.temperature > 0 || params.n === 1 || params.beamWidth !== null, {
    path: ["n"],
    error: "must be 1 with greedy sampling (temperature 0)",
  })
  .superRefine((params, context) => {
    for (const { field, message } of beamProblems(params)) {
      context.addIssue({ code: "custom", path: [field], message });
    }
  })
  .refine((params) => params.maxTokens === null || params.minTokens <= params.maxTokens, {
    path: ["minTokens"],
    error: "must be at most maxTokens",
  })
  .refine((params) => params.stop.length === 0 || params.detokenize, {
    path: ["stop"],
    error: "needs detokenize",
  })
  // Beam search does not sample, and greedy ignores parameters that only shape a distribution.
  .transform((params) => (params.beamWidth === null ? params : { ...params, temperature: 0 }))
  .transform((params) =>
    params.temperature === 0 ? { ...params, topP: 1, topK: 0, minP: 0 } : params,
  )
  .transform((params) => ({
    ...params,
    skipReadingPrefixCache: params.skipReadingPrefixCache ?? params.promptLogprobs !== null,
  }))
  .readonly();
/** Validated, defaults filled in. */
export type SamplingParams = z.output<typeof SamplingParams>;
/** The parameters as a caller gives them. */
export type SamplingOptions = z.input<typeof SamplingParams>;
