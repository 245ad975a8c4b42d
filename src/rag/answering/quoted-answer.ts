/** Answers of a model that is too small to be trusted: what words confirm, else quotations. */
import type { AskEvent, Source } from "./answer.ts";
import { CitedText } from "./cited-text.ts";
import { bestQuotes, hasWhatIsAskedFor, type Quote } from "./extract.ts";
import { NOT_FOUND, saysNotFound } from "./prompt-text.ts";
import { quoted } from "./quoting.ts";
import { wordsOf } from "./words.ts";

/** Least share of the question's words in a quotation: questions on other things stay below. */
const COVERAGE_MIN = 0.42;
/** Quotations that are nearly as good as the best one are told, too. */
const QUOTES_MAX = 2;
const NEARLY = 0.08;

/** What is told in place of what the model wrote, and the events that tell it. */
export interface CheckedAnswer {
  readonly cited: CitedText;
  readonly events: readonly AskEvent[];
  readonly isRefusal: boolean;
}

/** All that can be quoted; the model was given the first ones. */
export interface QuotedSources {
  readonly given: number;
  readonly sources: readonly Source[];
}

/**
 * What a small model wrote, where the words of the sources confirm it: its claim stands in one of
 * the sentences that fit the question best. Else these sentences, and a refusal where none fits.
 */
export function checkedAnswer(
  written: string,
  question: string,
  { given, sources }: QuotedSources,
): CheckedAnswer {
  const quotes = bestQuotes(question, sources, QUOTES_MAX);
  const own = new CitedText(sources.slice(0, given));
  const events = [...own.feed(written), ...own.end(saysNotFound(written))];
  if (isConfirmed(own, quotes) && hasWhatIsAskedFor(own.plain, question))
    return { cited: own, events, isRefusal: false };
  const cited = new CitedText(sources);
  const [best] = quotes;
  if (best === undefined || best.coverage < COVERAGE_MIN) {
    return { cited, events: [...cited.feed(NOT_FOUND), ...cited.end(true)], isRefusal: true };
  }
  const told = quotes.filter(
    ({ score, coverage }) => score >= best.score - NEARLY && coverage >= COVERAGE_MIN,
  );
  const said = told.flatMap(({ number, text }) => [...cited.quote(number, quoted(text))]);
  return { cited, events: said, isRefusal: false };
}

function isConfirmed({ citations, plain }: CitedText, quotes: readonly Quote[]): boolean {
  const claims = citations.filter(({ support }) => support === "verbatim");
  if (claims.length === 0 || claims.length < citations.length || saysNotFound(plain)) return false;
  return claims.every(({ claim }) => {
    const words = ` ${wordsOf(claim).join(" ")} `;
    return quotes.some(({ text, coverage }) => {
      return coverage >= COVERAGE_MIN && ` ${wordsOf(text).join(" ")} `.includes(words);
    });
  });
}
