/** Beam search as a request asks for it, and which other wishes it leaves room for. */
import { z } from "zod";

/** More beams cost as many sequences, and find nothing that fewer do not. */
const beamWidthMax = 64;
/** Far beyond any use, and lengths to this power are still numbers. */
const lengthPenaltyLimit = 10;

/** Fields of `SamplingParams`. */
export const beamFields = {
  beamWidth: z
    .int()
    .min(1)
    .max(beamWidthMax)
    .nullish()
    .transform((value) => value ?? null)
    .describe("Search with this many beams and return the n best; null: draw tokens."),
  lengthPenalty: z
    .number()
    .min(-lengthPenaltyLimit)
    .max(lengthPenaltyLimit)
    .default(1)
    .describe("Beams: log-probability / length ** this is the score; above 0 favours long ones."),
  earlyStopping: z
    .union([z.boolean(), z.literal("never")])
    .default(false)
    .describe(
      "Beams: with enough finished ones, end at once (true), when a better one is unlikely " +
        "(false), or when it is impossible (never).",
    ),
};

/** How many sequences one prompt of such a request makes, whatever else is wrong with it. */
export function sequencesOf(options: {
  readonly n?: number | undefined;
  readonly beamWidth?: number | null | undefined;
}): number {
  return Math.max(options.n ?? 1, options.beamWidth ?? 1);
}

/** What the rules between fields look at. */
interface BeamWishes {
  readonly n: number;
  readonly beamWidth: number | null;
  readonly lengthPenalty: number;
  readonly earlyStopping: boolean | "never";
}

/**
 * Fields that a search cannot heed, and their values that wish for nothing. It goes by the model's
 * own log-probabilities, compares whole beams, and knows no text.
 */
const REFUSED: Readonly<Record<string, (value: unknown) => boolean>> = {
  repetitionPenalty: (value) => value === 1,
  presencePenalty: (value) => value === 0,
  frequencyPenalty: (value) => value === 0,
  stop: isEmpty,
  logprobs: isNull,
  promptLogprobs: isNull,
  logprobTokenIds: isNull,
  logitBias: isEmpty,
  allowedTokenIds: isNull,
  badWords: isEmpty,
  structuredOutput: isNull,
  thinkingTokenBudget: isNull,
  repetitionDetection: isNull,
};

/** A combination of fields that has no meaning: which field, and what is wrong with it. */
interface BeamProblem {
  readonly field: string;
  readonly message: string;
}

/** What is wrong with the beam fields beside the others; in the order of fields. */
export function beamProblems(params: BeamWishes & Readonly<Record<string, unknown>>) {
  return params.beamWidth === null
    ? withoutBeams(params)
    : [...manyReturned(params, params.beamWidth), ...unheeded(params)];
}

function withoutBeams({ lengthPenalty, earlyStopping }: BeamWishes): BeamProblem[] {
  const message = "needs beamWidth";
  return [
    ...(lengthPenalty === 1 ? [] : [{ field: "lengthPenalty", message }]),
    ...(earlyStopping === false ? [] : [{ field: "earlyStopping", message }]),
  ];
}

function manyReturned({ n }: BeamWishes, beamWidth: number): BeamProblem[] {
  return n <= beamWidth
    ? []
    : [{ field: "n", message: `must be at most beamWidth (${beamWidth})` }];
}

function unheeded(params: Readonly<Record<string, unknown>>): BeamProblem[] {
  const message = "cannot be combined with beamWidth, leave one of them out";
  return Object.entries(REFUSED)
    .filter(([field, wishesNothing]) => !wishesNothing(params[field]))
    .map(([field]) => ({ field, message }));
}

function isNull(value: unknown): boolean {
  return value === null;
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
