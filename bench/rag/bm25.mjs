/** Okapi BM25 (Robertson and others, 1994) over stemmed words without stop words. */

const STOP_WORDS = new Set(
  `
  a about above after again all also am an and any are aren as at be because been before being
  below between both but by can cannot could couldn did didn do does doesn doing don down
  during each few for from further had has hasn have haven having he her here hers him his how
  i if in into is isn it its just like me more most my no nor not of off on once only or other
  our out over own same she should so some such t than that the their them then there these
  they this those through to too under until up use used using very want was wasn way we were
  what when where which while who whom why will with won would you your s m re ve ll d get
  make`
    .trim()
    .split(/\s+/),
);

const VOWEL = /[aeiouy]/;
/** Endings and what they become, the longest first, where a vowel stands before them. */
const ENDINGS = [
  ["ization", "iz"],
  ["ational", "at"],
  ["fulness", ""],
  ["ousness", "ous"],
  ["iveness", "iv"],
  ["ations", "at"],
  ["ation", "at"],
  ["ments", ""],
  ["ment", ""],
  ["ness", ""],
  ["ings", ""],
  ["ers", ""],
  ["ing", ""],
  ["ies", "i"],
  ["ied", "i"],
  ["est", ""],
  ["ed", ""],
  ["er", ""],
  ["ly", ""],
  ["es", ""],
  ["s", ""],
  ["y", "i"],
  ["e", ""],
];

/** Cuts endings off, so that forms of a word are equal: creates, creating, creation → creat. */
export function stem(word) {
  if (word.length < 4 || /\d/.test(word)) return word;
  for (const [ending, becomes] of ENDINGS) {
    if (!word.endsWith(ending)) continue;
    const rest = word.slice(0, -ending.length);
    if (rest.length < 3 || !VOWEL.test(rest) || (ending === "s" && rest.endsWith("s"))) continue;
    const stemmed = rest + becomes;
    const doubled = /([bdgmnprt])\1$/.test(stemmed) && ending !== "s";
    return (doubled ? stemmed.slice(0, -1) : stemmed).replace(/e$/, "");
  }
  return word;
}

/** The words of a text that carry meaning, stemmed, in order. */
export function contentWords(text) {
  const words = text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  return words.filter((word) => !STOP_WORDS.has(word)).map(stem);
}

/** An index of texts. `search` gives `count` places, the best first. */
export class Bm25 {
  #postings = new Map();
  #lengths;
  #meanLength;

  constructor(texts, { k1 = 1.2, b = 0.75 } = {}) {
    this.k1 = k1;
    this.b = b;
    this.#lengths = texts.map((text, place) => {
      const words = contentWords(text);
      const counts = new Map();
      for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
      for (const [word, count] of counts) {
        if (!this.#postings.has(word)) this.#postings.set(word, []);
        this.#postings.get(word).push([place, count]);
      }
      return words.length;
    });
    this.#meanLength = this.#lengths.reduce((sum, length) => sum + length, 0) / texts.length;
  }

  search(query, count) {
    const scores = new Map();
    const { k1, b } = this;
    for (const word of new Set(contentWords(query))) {
      const postings = this.#postings.get(word) ?? [];
      const found = postings.length;
      const idf = Math.log(1 + (this.#lengths.length - found + 0.5) / (found + 0.5));
      for (const [place, times] of postings) {
        const norm = k1 * (1 - b + (b * this.#lengths[place]) / this.#meanLength);
        const score = (idf * times * (k1 + 1)) / (times + norm);
        scores.set(place, (scores.get(place) ?? 0) + score);
      }
    }
    return [...scores]
      .sort(([placeA, a], [placeB, b]) => b - a || placeA - placeB)
      .slice(0, count)
      .map(([place]) => place);
  }
}
