/** Beam search parameters of a request, and the parameters that they exclude. */
import { z } from "zod";

/** Each beam costs as much as a sequence; more than this find no better result. */
const beamWidthMax = 64;
/** Far beyond any use; lengths to this power are still finite. */
const lengthPenaltyLimit = 10;

/** Fields of `SamplingParams`. */
export const beamFields = {
  beamWidth: z
    .int()
    .min(1)
    .max(beamWidthMax)
    .nullish()
    .transform((value) => value ?? null)
    .describe("Beam search with this many beams, which returns the n best; null: sampling."),
  lengthPenalty: z
    .number()
    .min(-lengthPenaltyLimit)
    .max(lengthPenaltyLimit)
    .default(1)
    .describe(
      "Beam search: score = log-probability / length ** lengthPenalty; above 0 favours long beams.",
    ),
  earlyStopping: z
    .union([z.boolean(), z.literal("never")])
    .default(false)
    .describe(
      "Beam search: with enough finished beams, stop at once (true), when a better one is " +
        "unlikely (false), or when it is impossible (never).",
    ),
};

/** Number of sequences per prompt of such a request, even if other fields are wrong. */
export function sequencesOf(options: {
  readonly n?: number | undefined;
  readonly beamWidth?: number | null | undefined;
}): number {
  return Math.max(options.n ?? 1, options.beamWidth ?? 1);
}

/** Fields that the rules between fields read. */
interface BeamWishes {
  readonly n: number;
  readonly beamWidth: number | null;
  readonly lengthPenalty: number;
  readonly earlyStopping: boolean | "never";
}

/**
 * Fields that beam search does not support, with a test for values without effect. Beam search uses
 * the model's own log-probabilities, compares whole beams, and works on token ids without text.
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

/** An invalid combination of fields: the field, and the error. */
interface BeamProblem {
  readonly field: string;
  readonly message: string;
}

/** Errors of the beam fields against the others; in the order of fields. */
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
