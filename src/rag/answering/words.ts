/** Words of English text, for checks and rewriting without a model. */

const STOP_WORDS = new Set(
  (
    "a about above after again all also am an and any are as at be because been before being " +
    "below between both but by can could did do does doing down during each else few for from " +
    "further had has have having he her here hers him his how i if in into is it its itself just " +
    "let like may me might more most must my of off on once one only or other our out over own " +
    "same say says she should so some such than that the their them then there these they this " +
    "those through to too under until up upon us very was we were what when where which while " +
    "who whom whose why will with within would you your according passage passages source " +
    "sources document documents answer question tell please many much"
  ).split(" "),
);

/** Words that turn a statement into its opposite. */
const NEGATIONS = new Set(["no", "not", "never", "none", "neither", "nor", "cannot", "without"]);

const WORD = /[\p{L}\p{N}](?:[\p{L}\p{N}_]|[.,:/'’-](?=[\p{L}\p{N}_]))*/gu;

/** The words of a text, in lower case: numbers without separators, paths and flags as one word. */
export function wordsOf(text: string): string[] {
  return (text.normalize("NFKC").match(WORD) ?? []).map(plainWord);
}

/** One word as it is compared. */
export function plainWord(word: string): string {
  const lower = word.toLowerCase().replaceAll("’", "'").replace(/'s$/, "");
  return /^\d[\d,]*(?:\.\d+)?$/.test(lower) ? lower.replaceAll(",", "") : lower;
}

/** Whether a word has a meaning of its own. */
export function isContent(word: string): boolean {
  return !STOP_WORDS.has(word) && !isNegation(word);
}

/** Whether the words deny something. */
export function isDenied(words: readonly string[]): boolean {
  return words.some(isNegation);
}

function isNegation(word: string): boolean {
  return NEGATIONS.has(word) || word.endsWith("n't");
}

const ENDINGS = ["ations", "ation", "ments", "ment", "ings", "ing", "ies", "ied", "ed", "es", "ly"];

/** A word without common English endings; numbers and short words as they are. */
export function stemOf(word: string): string {
  if (/\d/.test(word)) return word;
  for (const ending of ENDINGS) {
    if (word.length - ending.length >= 4 && word.endsWith(ending)) {
      return word.slice(0, -ending.length).replace(/(.)\1$/, "$1");
    }
  }
  return word.length > 3 ? word.replace(/(?<!s)s$|e$/, "") : word;
}

/** Sentences and lines, without the white space around them. */
export function sentencesOf(text: string): string[] {
  return text
    .split(/(?<=[.!?]["')\]]?)\s+|\n+/)
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence !== "");
}
