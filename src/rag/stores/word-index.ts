/** The words of a corpus in a folder: BM25 by FTS5 of SQLite, without a copy of the texts. */
import type { Database, Statement } from "node-sqlite3-wasm";
import { firstRow } from "./first-row.ts";
import type { Row } from "./vector-file.ts";
import { wordsOf } from "./words.ts";

/** A row that was found. */
export interface RowHit {
  readonly row: Row;
  /** Larger is better. */
  readonly score: number;
}

/** `ascii` alone splits at spaces and leaves all letters as `wordsOf` made them. */
const TABLE = `CREATE VIRTUAL TABLE IF NOT EXISTS words
  USING fts5(chunk, content='', contentless_delete=1, tokenize='ascii')`;
/** Of a question; further ones decide little, and each costs a pass over its chunks. */
const WORDS_MAX = 64;
/**
 * A word of more than a quarter of many chunks tells few apart, and finding it is what takes long
 * (a hundred thousand chunks: 276 ms with such words, 29 ms without): it counts only where a
 * question has no other.
 */
const FREQUENT_SHARE = 0.25;
const MANY_CHUNKS = 10_000;
/** Results of one score whose order by id must be known before they can be cut off. */
const TIES_MAX = 2000;
const COUNTED_WORDS_MAX = 50_000;

export class WordIndex {
  readonly #add: Statement;
  readonly #remove: Statement;
  readonly #search: Statement;
  readonly #count: Statement;
  /** Chunks of words as they were counted when the corpus had `#countedChunks`. */
  readonly #counts = new Map<string, number>();
  #countedChunks = 0;

  constructor(database: Database) {
    database.exec(TABLE);
    database.exec(
      "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, row)",
    );
    this.#add = database.prepare("INSERT INTO words (rowid, chunk) VALUES (?, ?)");
    this.#remove = database.prepare("DELETE FROM words WHERE rowid = ?");
    this.#search = database.prepare(
      "SELECT rowid AS found, rank AS score FROM words WHERE words MATCH ? ORDER BY rank",
    );
    this.#count = database.prepare("SELECT doc AS chunks FROM temp.vocabulary WHERE term = ?");
  }

  add(row: Row, text: string): void {
    this.#add.run([row, wordsOf(text).join(" ")]);
  }

  remove(row: Row): void {
    this.#remove.run([row]);
  }

  /**
   * Rows that have at least one of the text's words, best first: `most`, and others that are as
   * good as the last. `chunks` is how many the corpus has.
   */
  search(text: string, most: number, chunks: number, accepts: (row: Row) => boolean): RowHit[] {
    const words = this.#decisive([...new Set(wordsOf(text))].slice(0, WORDS_MAX), chunks);
    if (words.length === 0) return [];
    const hits: RowHit[] = [];
    const match = words.map((word) => `"${word}"`).join(" OR ");
    for (const { found, score } of this.#search.iterate([match])) {
      const hit = { row: Number(found), score: -Number(score) };
      const last = hits[most - 1];
      if (last !== undefined && (hit.score < last.score || hits.length >= most + TIES_MAX)) break;
      if (accepts(hit.row)) hits.push(hit);
    }
    return hits;
  }

  close(): void {
    for (const one of [this.#add, this.#remove, this.#search, this.#count]) one.finalize();
  }

  #decisive(words: readonly string[], chunks: number): readonly string[] {
    if (chunks < MANY_CHUNKS || words.length < 2) return words;
    if (Math.abs(chunks - this.#countedChunks) > chunks / 10) this.#forgetCounts(chunks);
    const rare = words.filter((word) => this.#chunksOf(word) <= chunks * FREQUENT_SHARE);
    return rare.some((word) => this.#chunksOf(word) > 0) ? rare : words;
  }

  #forgetCounts(chunks: number): void {
    this.#counts.clear();
    this.#countedChunks = chunks;
  }

  /** Kept, since counting the most frequent ones takes as long as a search. */
  #chunksOf(word: string): number {
    const known = this.#counts.get(word);
    if (known !== undefined) return known;
    if (this.#counts.size >= COUNTED_WORDS_MAX) this.#counts.clear();
    const counted = Number(firstRow(this.#count, [word])?.chunks ?? 0);
    this.#counts.set(word, counted);
    return counted;
  }
}
