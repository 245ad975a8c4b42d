/**
 * Whether a source says what is cited from it, decided by words alone: nothing counts as supported
 * whose numbers, names or literals the source lacks, or that it denies. What a source says in
 * other words may count as unsupported.
 */
import { isContent, isDenied, sentencesOf, stemOf, wordsOf } from "./words.ts";

/** How a claim was found in a source; null: it was not. */
export type Support = "verbatim" | "words" | null;

/** Least share of a claim's content words in the sentences of a source that support it. */
const SHARE_MIN = 0.65;
/** Sentences in a row that together may support a claim. */
const SENTENCES = 2;
/** Words of a source that are read: 32,768 units have fewer. */
const SENTENCES_MAX = 2048;

/** What a claim must have in common with a source. */
interface Claim {
  readonly words: readonly string[];
  /** Stems of content words. */
  readonly stems: readonly string[];
  /** Stems of numbers, names and literals: all of them must be there. */
  readonly hard: readonly string[];
  readonly denied: boolean;
}

/** How `source` supports `claim`. */
export function supportOf(claim: string, source: string): Support {
  const read = readClaim(claim);
  if (read.stems.length === 0) return null;
  if (isVerbatim(read.words, wordsOf(source))) return deniesDifferently(read, source);
  const sentences = sentencesOf(source).slice(0, SENTENCES_MAX);
  const words = sentences.map(wordsOf);
  for (const at of words.keys()) {
    for (let count = 1; count <= SENTENCES && at + count <= words.length; count++) {
      if (covers(words.slice(at, at + count).flat(), read)) return "words";
    }
  }
  return null;
}

function readClaim(text: string): Claim {
  const words = wordsOf(text);
  const content = words.filter(isContent);
  return {
    words,
    stems: content.map(stemOf),
    hard: [...hardWords(text)].map(stemOf),
    denied: isDenied(words),
  };
}

/** Numbers, words with a capital (at a sentence's start, too: it may be a name), words of code. */
const HARD = /^[^\p{L}\p{N}]*\p{Lu}|\d|[_`]|--\w|\w[./:]\w|\p{Ll}\p{Lu}|\p{Lu}{2}/u;

function hardWords(text: string): Set<string> {
  const written = text.split(/\s+/).filter((word) => HARD.test(word));
  return new Set(written.flatMap(wordsOf).filter(isContent));
}

function isVerbatim(claim: readonly string[], source: readonly string[]): boolean {
  return ` ${source.join(" ")} `.includes(` ${claim.join(" ")} `);
}

/** A verbatim claim that leaves out the source's "not" says the opposite. */
function deniesDifferently(claim: Claim, source: string): Support {
  const around = sentencesOf(source).map(wordsOf);
  const own = around.filter((words) => isVerbatim(claim.words, words));
  // A short answer (a name, a number) denies nothing by itself.
  const isStatement = claim.stems.length > 3;
  const agrees = own.length === 0 || own.some((words) => isDenied(words) === claim.denied);
  return !isStatement || agrees ? "verbatim" : null;
}

function covers(source: readonly string[], claim: Claim): boolean {
  const stems = new Set(source.map(stemOf));
  if (!claim.hard.every((word) => stems.has(word))) return false;
  if (claim.denied !== isDenied(source)) return false;
  const found = claim.stems.filter((stem) => stems.has(stem)).length;
  return found / claim.stems.length >= SHARE_MIN;
}

/** The part of an answer that a marker at `at` cites; markers have been taken out of the text. */
export function claimAt(text: string, at: number, from: number): string {
  const before = text.slice(from, at).trimEnd();
  const claim = before.slice(lastSentenceStart(before)).trim();
  if (wordsOf(claim).some(isContent)) return claim;
  // "According to [1], …": the marker comes first.
  const [sentence = ""] = sentencesOf(text.slice(at).replace(/^[\s,:;.]+/, ""));
  return `${claim} ${sentence}`.trim();
}

function lastSentenceStart(text: string): number {
  let start = 0;
  for (const { index, 0: gap } of text.matchAll(/[.!?]["')\]]?\s+|\n+/g))
    start = index + gap.length;
  return start;
}
