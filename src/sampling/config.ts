import { z } from "zod";
import { isPlainObject } from "#base";

const mebibyte = 2 ** 20;

/**
 * An object whose fields are validated elsewhere, passed unchanged: `z.record` would check each of
 * its keys, of which a client may send many.
 */
export const anyObject = z.unknown().check((context) => {
  const { value, issues } = context;
  if (!isPlainObject(value))
    issues.push({ code: "invalid_type", expected: "record", input: value });
}) as unknown as z.ZodType<Readonly<Record<string, unknown>>>;

/**
 * Limits of structured output on the server. A grammar beyond a limit is refused with the limit's
 * name.
 */
export const GrammarOptions = z
  .strictObject({
    sourceCharsMax: z
      .int()
      .positive()
      .default(262_144)
      .describe("Longest schema, grammar, regular expression or list of choices, in characters."),
    nestingMax: z
      .int()
      .min(1)
      .max(1024)
      .default(64)
      .describe("Deepest nesting of brackets in a grammar's source."),
    compileMsMax: z
      .int()
      .positive()
      .max(600_000)
      .default(5_000)
      .describe("Longest time that a grammar may take to compile, in a process of its own."),
    memoryBytesMax: z
      .int()
      .min(mebibyte)
      .default(64 * mebibyte)
      .describe("Most memory of one compiled grammar with the outputs that follow it."),
    lexerStatesMax: z
      .int()
      .min(16)
      .default(50_000)
      .describe("Most states of one grammar's lexer: large repetitions of patterns need many."),
    tokenWorkMax: z
      .int()
      .min(1_000)
      .default(100_000)
      .describe("Most work of the lexer for one token; 14,000 take about a millisecond."),
    tokenItemsMax: z
      .int()
      .min(1_000)
      .default(50_000)
      .describe("Most parser items for one token; 20,000 take about a millisecond."),
    averageWorkMax: z
      .int()
      .min(100)
      .default(20_000)
      .describe(
        "Most lexer work and parser items per token of a request, on average and beyond those " +
          "of 64 tokens; it bounds how long the other sequences of a step wait.",
      ),
    ambiguityMax: z
      .int()
      .min(100)
      .default(20_000)
      .describe("Most parser items at one position of an output: ambiguous grammars need many."),
    cacheBytesMax: z
      .int()
      .nonnegative()
      .default(64 * mebibyte)
      .describe("Memory for compiled grammars that are kept for later requests."),
    whitespaceMax: z
      .int()
      .min(0)
      .max(1024)
      .default(0)
      .describe(
        "Most whitespace characters between two JSON tokens; 0: compact JSON, with at most " +
          "one space after a comma or a colon.",
      ),
  })
  .readonly();
/** Validated, defaults filled in. */
export type GrammarOptions = z.output<typeof GrammarOptions>;
