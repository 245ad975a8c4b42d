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
  /** Numbers, names and literals: all of them must be there, as they are. */
  readonly exact: readonly string[];
  /** Stems of words that have a capital where a sentence begins: they may be names. */
  readonly first: readonly string[];
  readonly denied: boolean;
}

/** How `source` supports `claim`. */
export function supportOf(claim: string, source: string): Support {
  const read = readClaim(claim);
  if (read.stems.length === 0) return null;
  if (isVerbatim(read.words, wordsOf(source))) return deniesDifferently(read, source);
  const sentences = sentencesOf(source).slice(0, SENTENCES_MAX).map(wordsOf);
  for (const at of sentences.keys()) {
    for (let count = 1; count <= SENTENCES && at + count <= sentences.length; count++) {
      if (covers(sentences.slice(at, at + count), read)) return "words";
    }
  }
  return null;
}

/** Numbers, words of code and words with capitals inside. */
const LITERAL = /\d|[_`]|--\w|\w[./:]\w|\p{Ll}\p{Lu}|\p{Lu}{2}/u;
const CAPITAL = /^[^\p{L}\p{N}]*\p{Lu}/u;

function readClaim(text: string): Claim {
  const words = wordsOf(text);
  const exact = new Set<string>();
  const first = new Set<string>();
  for (const sentence of sentencesOf(text)) {
    for (const [place, written] of sentence.split(/\s+/).entries()) {
      const own = wordsOf(written).filter(isContent);
      const isName = CAPITAL.test(written);
      if (LITERAL.test(written) || (isName && place > 0)) for (const word of own) exact.add(word);
      else if (isName) for (const word of own) first.add(stemOf(word));
    }
  }
  const stems = words.filter(isContent).map(stemOf);
  return { words, stems, exact: [...exact], first: [...first], denied: isDenied(words) };
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

/** Whether sentences in a row say the claim, and the one that says most of it denies as it does. */
function covers(sentences: readonly (readonly string[])[], claim: Claim): boolean {
  const words = new Set(sentences.flat());
  if (!claim.exact.every((word) => words.has(word))) return false;
  const stems = sentences.map((sentence) => new Set(sentence.map(stemOf)));
  const isThere = (stem: string) => stems.some((own) => own.has(stem));
  if (!claim.first.every(isThere)) return false;
  if (claim.stems.filter(isThere).length / claim.stems.length < SHARE_MIN) return false;
  const shares = stems.map((own) => claim.stems.filter((stem) => own.has(stem)).length);
  const main = sentences[shares.indexOf(Math.max(...shares))] ?? [];
  return isDenied(main) === claim.denied;
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
