/** Vectors and texts of a made corpus: seeded, around centers, words as often as in a language. */

/** Numbers from 0 to 1, the same for a seed (mulberry32). */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const WORDS = 30_000;
const WORDS_PER_CHUNK = 120;
const CHUNKS_PER_DOCUMENT = 20;
const SPREAD = 0.8;

/** One center for each 500 chunks, at least 20: as many subjects as such a corpus may have. */
export class MadeCorpus {
  #centers;
  #vocabulary;

  constructor({ chunks, dimensions, seed = 1 }) {
    this.chunks = chunks;
    this.dimensions = dimensions;
    this.seed = seed;
    const random = randomFrom(seed);
    const centers = Math.max(20, Math.round(chunks / 500));
    this.#centers = Array.from({ length: centers }, () => normals(random, dimensions));
    this.#vocabulary = Array.from({ length: WORDS }, (_, rank) => wordOf(random, rank));
  }

  vector(number) {
    const random = randomFrom(this.seed * 1_000_003 + number * 2 + 1);
    const center = this.#centers[Math.floor(random() * this.#centers.length)];
    const noise = normals(random, this.dimensions);
    const vector = center.map((element, place) => element + SPREAD * noise[place]);
    const length = Math.hypot(...vector);
    return vector.map((element) => element / length);
  }

  text(number, words = WORDS_PER_CHUNK) {
    const random = randomFrom(this.seed * 7_000_003 + number * 2 + 1);
    // The frequency of a word falls with its rank, as Zipf found.
    const word = () => this.#vocabulary[Math.floor(WORDS ** random()) - 1];
    return Array.from({ length: words }, word).join(" ");
  }

  chunk(number) {
    const document = Math.floor(number / CHUNKS_PER_DOCUMENT);
    const index = number % CHUNKS_PER_DOCUMENT;
    return {
      id: number.toString(16).padStart(32, "0"),
      documentId: `document-${document}`,
      documentHash: "made",
      index,
      text: this.text(number),
      place: { lines: [index * 10 + 1, index * 10 + 10], page: null, headings: ["Made"] },
      attributes: { percent: document % 100, lang: document % 2 === 0 ? "en" : "de" },
      vector: this.vector(number),
    };
  }
}

function normals(random, count) {
  return Float32Array.from({ length: count }, () => {
    const radius = Math.sqrt(-2 * Math.log(1 - random()));
    return radius * Math.cos(2 * Math.PI * random());
  });
}

function wordOf(random, rank) {
  const length = 2 + (rank % 8);
  const letters = Array.from({ length }, () => String.fromCharCode(97 + Math.floor(random() * 26)));
  return `${letters.join("")}${rank.toString(36)}`;
}
