/**
 * Words of texts, as our own indexes of words count them: the same for chunks and for questions.
 * Letters lose case, accents and width; names of programs are found by their parts, too; scripts
 * without spaces are cut into single characters and pairs.
 */

const WORD = /[\p{L}\p{N}\p{M}]+/gu;
const ACCENTS = /[\u0300-\u036f]/g;
/** Before a capital that follows a small letter or a digit: `parseHeader` has two parts. */
const HUMP = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u;
const SCRIPTS = ["Han", "Hiragana", "Katakana", "Hangul", "Thai", "Lao", "Khmer", "Myanmar"];
const UNSPACED = new RegExp(`[${SCRIPTS.map((name) => `\\p{Script=${name}}`).join("")}]+`, "gu");
/** Longer ones are digests and encoded bytes: their beginning tells them apart. */
const WORD_LENGTH_MAX = 64;

/** The words of a text, in order and with repetitions. */
export function wordsOf(text: string): string[] {
  const words: string[] = [];
  for (const [word] of text.normalize("NFKC").matchAll(WORD)) addWord(words, word);
  return words;
}

function addWord(words: string[], word: string): void {
  if (word.search(UNSPACED) >= 0) {
    for (const [run] of word.matchAll(UNSPACED)) addRun(words, run);
    for (const rest of word.split(UNSPACED)) if (rest !== "") addWord(words, rest);
    return;
  }
  words.push(folded(word));
  if (!HUMP.test(word)) return;
  for (const part of word.split(HUMP)) words.push(folded(part));
}

function addRun(words: string[], run: string): void {
  let last = "";
  for (const character of run) {
    words.push(character);
    if (last !== "") words.push(`${last}${character}`);
    last = character;
  }
}

/** Taken apart, accents are characters of their own; put together again, Hangul is as before. */
function folded(word: string): string {
  const bare = word.normalize("NFD").replace(ACCENTS, "").normalize("NFC").toLowerCase();
  return bare.length <= WORD_LENGTH_MAX ? bare : [...bare].slice(0, WORD_LENGTH_MAX).join("");
}
