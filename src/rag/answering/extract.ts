/**
 * The sentence of the sources that answers a question best, by words: what is said where a model is
 * too small to be trusted with an answer of its own.
 */
import type { Hit } from "#rag/stores";
import type { Source } from "./answer.ts";
import { isContent, stemOf, wordsOf } from "./words.ts";

/** A sentence as it stands in a source. */
export interface Quote {
  /** `Source.number`. */
  readonly number: number;
  readonly text: string;
  /** Share of the question's words, rare ones counting more, that it or its heading has. */
  readonly coverage: number;
  /** What quotes are ordered by: `coverage`, and whether it says what is asked for. */
  readonly score: number;
}

/** How much a word counts in a sentence's heading and in the sentence before it. */
const HEADING_SHARE = 0.4;
const BEFORE_SHARE = 0.3;
/** For what a question asks for: a number, a flag, a literal. */
const CUE = 0.15;
/** Per place behind the best source. */
const RANK_COST = 0.02;
/** Longer sentences are mostly lists. */
const LONG = 400;
const LONG_COST = 0.1;
/** Lines of code have words of a question, but say nothing about it. */
const CODE_COST = 0.4;
const SENTENCES_MAX = 4096;

interface Candidate {
  readonly number: number;
  readonly rank: number;
  readonly text: string;
  readonly isCode: boolean;
  readonly stems: ReadonlySet<string>;
  readonly before: ReadonlySet<string>;
  readonly heading: ReadonlySet<string>;
}

/** The best quotes for a question, best first. */
export function bestQuotes(question: string, sources: readonly Source[], most: number): Quote[] {
  const candidates = candidatesOf(sources).slice(0, SENTENCES_MAX);
  const wanted = [...stemsIn(question)];
  const weight = weigher(candidates);
  const total = wanted.reduce((sum, stem) => sum + weight(stem), 0);
  if (total === 0) return [];
  const cue = cueOf(question);
  return candidates
    .map((candidate) => {
      const { number, text, rank, isCode } = candidate;
      const isAskedFor = cue.said.test(text);
      const said = wanted.reduce((sum, stem) => {
        // "Which flag …": a sentence that has one need not call it a flag.
        const isThere = isAskedFor && cue.stems.has(stem);
        return sum + weight(stem) * (isThere ? 1 : shareOf(stem, candidate));
      }, 0);
      const coverage = said / total;
      const cost =
        rank * RANK_COST + (text.length > LONG ? LONG_COST : 0) + (isCode ? CODE_COST : 0);
      return { number, text, coverage, score: coverage + (isAskedFor ? CUE : 0) - cost };
    })
    .sort((a, b) => b.score - a.score)
    .slice(0, most)
    .map(({ number, text, coverage, score }) => ({ number, text, coverage, score }));
}

/**
 * Found chunks by the best sentence that each has for a question, what was found first before
 * others that are as good: a search ranks whole chunks, of which one sentence may answer.
 */
export function byBestQuote<H extends Hit>(question: string, hits: readonly H[]): H[] {
  // Places stand for scores: those of a search may lie close together.
  const sources = hits.map((hit, place) => ({ ...hit, number: place + 1, score: -place }));
  const quotes = bestQuotes(question, sources, Number.POSITIVE_INFINITY);
  const places = new Set([...quotes.map(({ number }) => number - 1), ...hits.keys()]);
  return [...places].flatMap((place) => hits[place] ?? []);
}

function candidatesOf(sources: readonly Source[]): Candidate[] {
  // The best source first: numbers follow the prompt's order.
  const ranked = [...sources].sort((a, b) => b.score - a.score);
  return ranked.flatMap(({ number, chunk }, rank) => {
    const heading = stemsIn(chunk.place.headings.join(" "));
    const sentences = passageSentences(chunk.text);
    return sentences.map(({ text, isCode }, place) => {
      const before = stemsIn(sentences[place - 1]?.text ?? "");
      return { number, rank, text, isCode, stems: stemsIn(text), before, heading };
    });
  });
}

/** A sentence of a passage. */
export interface Sentence {
  readonly text: string;
  readonly isCode: boolean;
}

/**
 * Sentences of a passage: lines belong together unless they begin an item, a row or a heading; a
 * sentence with a colon at its end goes on. Lines of code stand alone.
 */
export function passageSentences(passage: string): Sentence[] {
  const sentences: Sentence[] = [];
  for (const [place, part] of passage.split(/^[^\S\n]*(?:```|~~~).*$/m).entries()) {
    const isCode = place % 2 === 1;
    const joined = isCode ? part : part.replace(/\n(?!\s*(?:[-*|#>]|\d+[.)]\s|\n))/g, " ");
    const lines = joined.split(/\n+/);
    for (const one of isCode ? lines : lines.flatMap(partsOf)) {
      const sentence = isCode ? one.trim() : withoutMarks(one);
      if (!/[\p{L}\p{N}]/u.test(sentence)) continue;
      const last = isCode ? undefined : sentences.at(-1);
      const goesOn = last?.isCode === false && last.text.endsWith(":") && last.text.length < LONG;
      if (goesOn) sentences.pop();
      const text = goesOn ? `${last.text} ${sentence}` : sentence;
      sentences.push({ text, isCode: isCode || CODE.test(sentence) });
    }
  }
  return sentences;
}

/** Sentences of a line; a row is one. */
function partsOf(line: string): string[] {
  return /^\s*\|.*\|\s*$/.test(line) ? [line] : line.split(/(?<=[.!?]["')\]`]?)\s+/);
}

/** A line of Markdown as a sentence: without the mark of an item, cells of a row with dashes. */
function withoutMarks(line: string): string {
  const text = line.replace(/\s+/g, " ").trim();
  if (!/^\|.*\|$/.test(text)) return text.replace(/^(?:[-*>]|#+|\d+[.)]) /, "");
  const cells = text
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());
  return cells.filter((cell) => cell !== "" && !/^:?-+:?$/.test(cell)).join(" — ");
}

/** Stems of the words of a text; those of compounds (paths, flags) also one by one. */
function stemsIn(text: string): Set<string> {
  const words = wordsOf(text).flatMap((word) => [word, ...word.split(/[^\p{L}\p{N}]+/u)]);
  return new Set(words.filter((word) => word !== "" && isContent(word)).map(stemOf));
}

/** How rare a word is among the candidates. */
function weigher(candidates: readonly Candidate[]): (stem: string) => number {
  const counts = new Map<string, number>();
  for (const { stems } of candidates) {
    for (const stem of stems) counts.set(stem, (counts.get(stem) ?? 0) + 1);
  }
  const all = candidates.length + 1;
  return (stem) => Math.log(1 + all / ((counts.get(stem) ?? 0) + 0.5));
}

function shareOf(stem: string, { stems, heading, before }: Candidate): number {
  if (stems.has(stem)) return 1;
  if (heading.has(stem)) return HEADING_SHARE;
  return before.has(stem) ? BEFORE_SHARE : 0;
}

const NOTHING = /(?!)/;
/** Lines of code without their fence. */
const CODE = /^(?:[{}[\]$]|"[^"]*":)/;
const CUES: readonly (readonly [asked: RegExp, said: RegExp])[] = [
  [/\bwhich (?:flag|option)\b/i, /--\w/],
  [
    /\b(?:how (?:many|much|long|often|old|large)|number|version|port|size|year|code|status)\b/i,
    /\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twice|once)\b/i,
  ],
  [/^when\b/i, /\d|\bwhen\b|\bafter\b|\bbefore\b/i],
  [/\bdefault\b/i, /\bdefault\b|\(\S+\)/i],
  [/^(?:where|which command|which file|what command|at which)\b/i, /`|\//],
];

/** What a sentence has that answers a question of some kind, and the question's words for it. */
interface Cue {
  readonly said: RegExp;
  readonly stems: ReadonlySet<string>;
}

function cueOf(question: string): Cue {
  for (const [asked, said] of CUES) {
    const found = asked.exec(question);
    if (found !== null) return { said, stems: stemsIn(found[0]) };
  }
  return { said: NOTHING, stems: new Set() };
}

/** Whether a text has the flag or number that a question asks for; true where it asks for none. */
export function hasWhatIsAskedFor(text: string, question: string): boolean {
  const { said } = cueOf(question);
  return said === NOTHING || said.test(text);
}
