/**
 * Questions of a conversation made to stand alone: a search knows nothing of what was said before.
 * Without a model that can rewrite, by rules: what a pronoun stands for is the subject of the
 * question before.
 */
import { isContent, wordsOf } from "./words.ts";

/** One question of a conversation and what was answered. */
export interface Turn {
  readonly question: string;
  readonly answer: string;
}

const PRONOUN = /\b(it|its|they|them|their|theirs|he|him|his|she|her|hers)\b/i;
const POINTER =
  /\b(this|that|these|those)\b(?=\s*(?:\?|$|(?:is|are|was|were|do|does|did|can|be)\b))/i;
const CONTINUED = /^(?:and|but|or|so|also|then)\b[\s,]*/i;
const ABOUT =
  /^(?:(?:what|how)\s+about|and|or)\s+(?:(?:for|of|in|on|at|with|by|to)\s+)?(.+?)\s*\?*$/i;
/** Words between clauses, not at the beginning of a question. */
const CLAUSE = new RegExp(
  `\\s(?:${anyOf(
    "when if that which who because while and but or after before unless until where so once",
  )})\\s`,
  "i",
);
/** What begins a question of its own: "and how …?" is no other subject. */
const ASKS = new RegExp(
  `^(?:${anyOf(
    "who whom whose what when where why how which is are was were do does did can could will " +
      "would should has have had if",
  )})\\b`,
  "i",
);
const VERBS = new RegExp(
  `^(?:${anyOf(
    "do does did done work works mean means use uses used happen happens contain contains have " +
      "has had cost costs need needs run runs begin begins start starts end ends take takes go " +
      "goes come comes get gets make makes made build built open opened live lives know known " +
      "set sets called",
  )}|\\p{L}{3,}(?:ed|ing))$`,
  "u",
);

/** Whether a question can only be understood with the one before it. */
export function leansOnEarlier(question: string): boolean {
  const text = question.trim();
  if (CONTINUED.test(text) || /^(?:what|how)\s+about\b/i.test(text)) return true;
  if (POINTER.test(text)) return true;
  const at = PRONOUN.exec(text)?.index ?? -1;
  if (at >= 0) return !hasNounBefore(text.slice(0, at));
  return wordsOf(text).filter(isContent).length === 0;
}

/** In "Does the engine stop when it is idle?" the pronoun has its noun in the clause before. */
function hasNounBefore(text: string): boolean {
  const [first = "", ...others] = text.split(CLAUSE);
  return others.length > 0 && subjectOf(first) !== null;
}

/** The question as it can be asked alone; as it is where it leans on nothing. */
export function standaloneByRules(question: string, turns: readonly Turn[]): string {
  const last = turns.at(-1);
  const text = question.trim();
  if (last === undefined || !leansOnEarlier(text)) return text;
  const earlier = last.question.trim();
  const subject = subjectOf(earlier);
  const other = ABOUT.exec(text)?.[1];
  if (other !== undefined && !ASKS.test(other) && !PRONOUN.test(other)) {
    return subject === null ? `${bare(earlier)}: ${other}?` : earlier.replace(subject, () => other);
  }
  const own = text.replace(CONTINUED, "");
  if (subject !== null && (PRONOUN.test(own) || POINTER.test(own))) {
    return capitalised(withSubject(own, subject));
  }
  return `${bare(earlier)}: ${own}`;
}

/** The subject of a question: a name, else the first thing with an article; null: none is found. */
export function subjectOf(question: string): string | null {
  const quoted = /[`"“]([^`"”]{2,80})[`"”]/.exec(question)?.[0];
  if (quoted !== undefined) return quoted;
  const words = question
    .trim()
    .replace(/[?!.,;:]+(?=\s|$)/g, "")
    .split(/\s+/);
  const phrases = phrasesOf(words);
  const named = phrases.find((phrase) =>
    phrase.some((word) => /^\p{Lu}|\p{Ll}\p{Lu}|[_\d]|--/u.test(word)),
  );
  const phrase =
    named ?? phrases.find(([first = ""]) => /^(?:the|an?)$/i.test(first)) ?? phrases[0];
  return phrase === undefined ? null : phrase.join(" ");
}

/** Runs of words that may name a thing: an optional article, then words with a meaning. */
function phrasesOf(words: readonly string[]): string[][] {
  const phrases: string[][] = [];
  let phrase: string[] = [];
  const close = () => {
    if (phrase.some((word) => !/^(?:the|an?)$/i.test(word))) phrases.push(phrase);
    phrase = [];
  };
  for (const [place, word] of words.entries()) {
    if (/^(?:the|an?)$/i.test(word)) {
      close();
      phrase = [word];
    } else if (isThing(word, place)) phrase.push(word);
    else close();
  }
  close();
  return phrases;
}

function isThing(word: string, place: number): boolean {
  if (place === 0 && ASKS.test(word)) return false;
  const [plain = ""] = wordsOf(word);
  if (plain === "" || !isContent(plain)) return false;
  return /^\p{Lu}/u.test(word) ? place > 0 : !VERBS.test(word);
}

function withSubject(question: string, subject: string): string {
  const own = question.replace(/\b(its|their|theirs|his|hers)\b/gi, () => `${subject}'s`);
  // "her" is "his" before a noun and "him" elsewhere.
  const hers = own.replace(/\bher\b(?=\s+\p{L})/giu, () => `${subject}'s`);
  const pronouns = hers.replace(/\b(it|they|them|he|him|she|her)\b/i, () => subject);
  return pronouns === question ? question.replace(POINTER, () => subject) : pronouns;
}

function bare(question: string): string {
  return question.replace(/[?!.\s]+$/, "");
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Instructions for a model that rewrites; the conversation is quoted, not continued. */
export const REWRITE_RULES =
  "You rewrite the last question of a conversation so that it can be understood alone. Replace " +
  "pronouns by what they stand for. Do not answer it. Reply with the question only, on one line.";

/** The conversation as a model that rewrites reads it. */
export function rewriteRequest(question: string, turns: readonly Turn[]): string {
  const said = turns.map(
    (turn) => `User: ${oneLine(turn.question)}\nAnswer: ${oneLine(turn.answer)}`,
  );
  return `${said.join("\n")}\n\nLast question: ${oneLine(question)}`;
}

const LINE_MAX = 600;

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim().slice(0, LINE_MAX);
}

/** UTF-16 units of a question that was rewritten. */
const REWRITTEN_MAX = 400;
/** Least share of its content words that were said in the conversation. */
const SAID_MIN = 0.75;

/** What a model wrote, if it can be the question; null: the rules have to do. */
export function checkedRewrite(
  written: string,
  question: string,
  turns: readonly Turn[],
): string | null {
  const text = written
    .trim()
    .replace(/^["'“]|["'”]$/g, "")
    .replace(/^question:\s*/i, "");
  if (text === "" || text.includes("\n") || text.length > REWRITTEN_MAX) return null;
  const said = new Set(wordsOf([question, ...turns.flatMap(Object.values)].join(" ")));
  const words = wordsOf(text).filter(isContent);
  const known = words.filter((word) => said.has(word)).length;
  return words.length > 0 && known / words.length >= SAID_MIN ? text : null;
}

function anyOf(list: string): string {
  return list.replaceAll(" ", "|");
}
