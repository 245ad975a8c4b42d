/**
 * The search by vector in a folder: exact among few vectors, by an index among many.
 *
 * Rows that the index lacks are compared one by one. When there are many of them the index takes
 * them in, a few at a time between calls (`work`). It is derived: its file has a list of its rows
 * beside it, the table notes both after they were written, and without them it is built anew.
 */
import { randomUUID } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import type { ChunkTable } from "./chunk-table.ts";
import type { RowStates } from "./row-states.ts";
import type { Row, VectorFile } from "./vector-file.ts";
import { type Usearch, VectorIndex } from "./vector-index.ts";
import type { RowHit } from "./word-index.ts";

/** Elements of vectors that are compared one by one: 10 ms (`bench/rag/stores.mjs`). */
const EXACT_ELEMENTS = 4 << 20;
/** Rows that the index takes in at a time. */
const ROWS_AT_ONCE = 64;
/** Rows asked of the index, for each result and at least: what it misses is found by more. */
const ASKED_PER_RESULT = 4;
const ASKED_MIN = 64;
/** Comparing so many rows takes as long as asking the index for one. */
const ROWS_PER_ASKED = 8;
/** Share of an index's rows that are buried from which on it is built anew. */
const BURIED_SHARE_MAX = 1 / 3;
/** Growth of an index after which it is saved: what a kill loses is taken in again. */
const SAVED_GROWTH = 1.5;
const INDEX_FACT = "index";

/** What the table notes of a saved index. */
interface SavedIndex {
  /** The name of its files, without endings. */
  readonly file: string;
  /** Of the graph's file, which is mapped into memory: reading behind its end would be fatal. */
  readonly bytes: number;
}

/** What a corpus's search by vector works on. */
export interface SearchParts {
  readonly folder: string;
  readonly table: ChunkTable;
  readonly vectors: VectorFile;
  readonly states: RowStates;
  /** Null: this platform lacks the library; all vectors are compared one by one. */
  readonly usearch: Usearch | null;
  /** Elements of vectors that are compared one by one; null: as many as take 10 ms. */
  readonly exactElements: number | null;
}

export class VectorSearch {
  readonly #parts: SearchParts;
  readonly #exactRows: number;
  #index: VectorIndex | null = null;
  #saved: SavedIndex | null = null;
  #savedSize = 0;
  #isTakingIn = false;

  /** Opens the index that the table notes, and tells `states` its rows, which must be empty. */
  constructor(parts: SearchParts) {
    this.#parts = parts;
    const elements = parts.exactElements ?? EXACT_ELEMENTS;
    this.#exactRows = Math.max(1, Math.floor(elements / parts.vectors.dimensions));
    const indexed = this.#open();
    const rows = parts.table.rows();
    for (let at = 0; at < rows.length; at += 2) {
      const row = rows[at] ?? 0;
      parts.states.use(row, rows[at + 1] ?? 0, indexed.delete(row) ? "indexed" : "recent");
    }
    for (const row of indexed) parts.states.bury(row);
  }

  /**
   * The nearest of accepted rows, best first: `most` where there are as many, and others that are
   * as near as the last.
   */
  search(query: Float32Array, most: number, accepted: Uint8Array | null): RowHit[] {
    const { states, vectors } = this.#parts;
    const isAccepted = (row: Row) => accepted === null || accepted[row] === 1;
    const recent = accepted === null ? states.recent : states.recent.filter(isAccepted);
    const indexed = this.#indexed(query, most, isAccepted, accepted === null);
    const sorted = Int32Array.from([...recent, ...indexed]).sort();
    return best(sorted, vectors.scores(query, sorted), most);
  }

  /** Takes some rows into the index, where it is due; tells whether there is more to do. */
  work(): boolean {
    const { states, usearch, vectors } = this.#parts;
    if (usearch === null) return false;
    if (!this.#isTakingIn) {
      if (this.#index !== null && this.#buriedShare() > BURIED_SHARE_MAX) this.#forget();
      if (states.counts.recent <= this.#exactRows) return false;
      this.#isTakingIn = true;
    }
    const index = this.#writableIndex(usearch);
    const rows = states.recent.slice(0, ROWS_AT_ONCE);
    vectors.read(rows, (read, start, count) => index.add(rows.slice(start, start + count), read));
    for (const row of rows) states.takeIn(row);
    if (states.counts.recent === 0) {
      this.#isTakingIn = false;
      if (index.size >= this.#savedSize * SAVED_GROWTH) this.save();
    }
    return this.#isTakingIn;
  }

  /** Keeps what the index took in. */
  save(): void {
    const { folder, table, states } = this.#parts;
    const index = this.#index;
    if (index === null || !index.isWritable || index.size === this.#savedSize) return;
    const rows = Int32Array.from([...states.rows("indexed"), ...states.rows("buried")]);
    const file = `index-${randomUUID()}`;
    const path = join(folder, `${file}.usearch`);
    index.save(path);
    writeDurably(join(folder, `${file}.rows`), new Uint8Array(rows.buffer));
    const saved: SavedIndex = { file, bytes: statSync(path).size };
    table.transaction(() => table.setFact(INDEX_FACT, JSON.stringify(saved)));
    this.#saved = saved;
    this.#removeOthers();
    this.#savedSize = index.size;
  }

  #buriedShare(): number {
    const { buried, indexed } = this.#parts.states.counts;
    return buried / Math.max(1, buried + indexed);
  }

  /** Rows of the index that may be among the nearest. */
  #indexed(
    query: Float32Array,
    most: number,
    isAccepted: (row: Row) => boolean,
    isUnfiltered: boolean,
  ): Row[] {
    const { states } = this.#parts;
    const index = this.#index;
    if (index === null) return [];
    const all = isUnfiltered ? null : states.rows("indexed").filter(isAccepted);
    const count = all?.length ?? states.counts.indexed;
    const exact = () => all ?? states.rows("indexed");
    if (count <= this.#exactRows) return exact();
    const share = count / index.size;
    let asked = Math.ceil(Math.max(ASKED_MIN, ASKED_PER_RESULT * most) / share);
    for (; asked * ROWS_PER_ASKED < count; asked *= 4) {
      const near = index.near(query, asked);
      const rows = near.filter((row) => states.of(row) === "indexed" && isAccepted(row));
      if (rows.length >= Math.min(most, count)) return rows;
    }
    return exact();
  }

  #writableIndex(usearch: Usearch): VectorIndex {
    const { folder, vectors } = this.#parts;
    const { dimensions } = vectors;
    if (this.#index === null) {
      this.#index = VectorIndex.create(usearch, dimensions);
    } else if (!this.#index.isWritable) {
      const path = join(folder, `${this.#saved?.file}.usearch`);
      this.#index = VectorIndex.open(usearch, path, { dimensions, writable: true });
    }
    return this.#index;
  }

  /** The saved index and its rows; without one, or with one that cannot be read, there are none. */
  #open(): Set<Row> {
    const { folder, table, vectors, usearch } = this.#parts;
    const fact = table.fact(INDEX_FACT) || null;
    if (fact === null) return new Set();
    try {
      // Rows may be used again meanwhile, of which that index would have other vectors.
      if (usearch === null) throw new Error("this platform lacks the library");
      const saved = JSON.parse(fact) as SavedIndex;
      const path = join(folder, `${saved.file}.usearch`);
      if (statSync(path).size !== saved.bytes) throw new Error("an index was cut");
      const bytes = readFileSync(join(folder, `${saved.file}.rows`));
      const rows = new Int32Array(new Uint8Array(bytes).buffer);
      const { dimensions } = vectors;
      const index = VectorIndex.open(usearch, path, { dimensions, writable: false });
      if (index.size !== rows.length) throw new Error("an index and its rows differ");
      this.#index = index;
      this.#saved = saved;
      this.#savedSize = index.size;
      return new Set(rows);
    } catch {
      // Of another version, or damaged: the vectors are all that is needed to build it again.
      this.#forget();
      return new Set();
    }
  }

  /** The next index is built from the vectors. */
  #forget(): void {
    const { table, states } = this.#parts;
    table.transaction(() => table.setFact(INDEX_FACT, ""));
    this.#saved = null;
    this.#removeOthers();
    this.#index = null;
    this.#savedSize = 0;
    states.forgetIndex();
  }

  /** Files of indexes that the table does not note, also of those that a kill left behind. */
  #removeOthers(): void {
    const { folder } = this.#parts;
    for (const name of readdirSync(folder)) {
      const isOther = /\.(usearch|rows)$/.test(name) && !name.startsWith(`${this.#saved?.file}.`);
      if (isOther) rmSync(join(folder, name), { force: true });
    }
  }
}

/** The `most` best, and those that are as good as the last of them. */
function best(rows: Int32Array, scores: Float64Array, most: number): RowHit[] {
  const least = scores.length <= most ? Number.NEGATIVE_INFINITY : nth(scores, most);
  const hits: RowHit[] = [];
  rows.forEach((row, place) => {
    const score = scores[place] ?? 0;
    if (score >= least) hits.push({ row, score });
  });
  return hits.sort((one, other) => other.score - one.score);
}

/** The `rank`th largest, from 1. */
function nth(scores: Float64Array, rank: number): number {
  return Float64Array.from(scores).sort().at(-rank) ?? 0;
}

function writeDurably(path: string, bytes: Uint8Array): void {
  const file = openSync(path, "w", 0o600);
  try {
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
