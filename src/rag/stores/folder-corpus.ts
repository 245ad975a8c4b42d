/** One corpus in a folder: a table of chunks, a file of vectors, an index of them. */
import { join } from "node:path";
import { EngineError } from "#base";
import type { Chunk, StoredChunk } from "#rag/texts";
import { checkChunks, checkFilter, checkQuery } from "./argument-checks.ts";
import { ChunkTable } from "./chunk-table.ts";
import { type Filter, passes } from "./filter.ts";
import { byRank, fuse, listLength, type Ranked } from "./ranking.ts";
import { RowStates } from "./row-states.ts";
import { type Row, VectorFile } from "./vector-file.ts";
import type { Usearch } from "./vector-index.ts";
import { VectorSearch } from "./vector-search.ts";
import type { CorpusInfo, CorpusSpec, Hit, StoredDocument, StoreQuery } from "./vector-store.ts";
import type { RowHit } from "./word-index.ts";

/** How vectors are searched. */
export interface FolderSearchOptions {
  /** Null: this platform lacks the library. */
  readonly usearch: Usearch | null;
  /** Elements of vectors that are compared one by one; null: as many as take 10 ms. */
  readonly exactElements: number | null;
}

/** Of the files in a corpus's folder. */
const FORMAT = "perigee-corpus-1";
/** Rows that an index takes in for each that is stored, once it is due: it keeps up. */
const TAKEN_IN_PER_ROW = 2;

export class FolderCorpus {
  readonly spec: CorpusSpec;
  readonly #table: ChunkTable;
  readonly #vectors: VectorFile;
  readonly #states = new RowStates();
  readonly #search: VectorSearch;

  private constructor(folder: string, options: FolderSearchOptions, table: ChunkTable) {
    this.#table = table;
    this.spec = specOf(folder, table);
    this.#vectors = new VectorFile(join(folder, "vectors.f32"), this.spec.dimensions);
    const parts = { folder, table, vectors: this.#vectors, states: this.#states, ...options };
    this.#search = new VectorSearch(parts);
    if (this.#vectors.rows >= this.#states.end) return;
    throw new EngineError(
      "CORPUS_INVALID",
      `Cannot open the corpus ${this.spec.name}: its file of vectors must have ` +
        `${this.#states.end}, current value is ${this.#vectors.rows}; remove ${folder} and ` +
        "ingest again",
    );
  }

  /** Writes an empty corpus into an empty folder. */
  static make(folder: string, spec: CorpusSpec): void {
    const table = new ChunkTable(join(folder, "chunks.sqlite"));
    table.transaction(() => {
      table.setFact("format", FORMAT);
      table.setFact("name", spec.name);
      table.setFact("dimensions", String(spec.dimensions));
      table.setFact("embedder", spec.embedder);
    });
    table.close();
    new VectorFile(join(folder, "vectors.f32"), spec.dimensions).close();
  }

  static open(folder: string, options: FolderSearchOptions): FolderCorpus {
    const table = new ChunkTable(join(folder, "chunks.sqlite"));
    try {
      return new FolderCorpus(folder, options, table);
    } catch (error) {
      table.close();
      throw error;
    }
  }

  info(): CorpusInfo {
    const { name, dimensions, embedder } = this.spec;
    const documents = this.#table.documentCount();
    return { name, dimensions, embedder, documents, chunks: this.#states.used };
  }

  upsert(chunks: readonly StoredChunk[]): void {
    checkChunks(chunks, this.spec.dimensions);
    const wanted = [...new Map(chunks.map((chunk) => [chunk.id, chunk])).values()];
    const changes = wanted.flatMap((chunk) => {
      const found = this.#table.find(chunk);
      if (found?.isEqual && this.#hasVector(found.row, chunk.vector)) return [];
      return [{ chunk, replaced: found?.row ?? null }];
    });
    if (changes.length === 0) return;
    const rows = this.#states.free(changes.length);
    this.#vectors.write(
      rows,
      changes.map(({ chunk }) => chunk.vector),
    );
    this.#vectors.sync();
    const sets = this.#table.transaction(() =>
      changes.map(({ chunk, replaced }, place) => {
        if (replaced !== null) this.#table.remove(replaced);
        return this.#table.add(rows[place] ?? 0, chunk);
      }),
    );
    for (const { replaced } of changes) if (replaced !== null) this.#states.clear(replaced);
    rows.forEach((row, place) => {
      this.#states.use(row, sets[place] ?? 0);
    });
    this.#takeIn(rows.length * TAKEN_IN_PER_ROW);
  }

  deleteDocument(documentId: string, keep: ReadonlySet<string>): number {
    const rows = this.#table.rowsOf(documentId).filter(({ id }) => !keep.has(id));
    if (rows.length === 0) return 0;
    this.#table.transaction(() => {
      for (const { row } of rows) this.#table.remove(row);
    });
    for (const { row } of rows) this.#states.clear(row);
    return rows.length;
  }

  count(filter: Filter | null): number {
    checkFilter(filter);
    const accepted = this.#accepted(filter);
    if (accepted === null) return this.#states.used;
    return accepted.reduce((sum, one) => sum + one, 0);
  }

  search(query: StoreQuery): Hit[] {
    checkQuery(query, this.spec.dimensions);
    const { vector, text, limit } = query;
    const accepted = this.#accepted(query.filter);
    const isHybrid = vector !== null && text !== null;
    const most = isHybrid ? listLength(limit) : limit;
    const rows = new Map<string, Row>();
    const ranked = (hits: readonly RowHit[]): Ranked[] => {
      const listed = hits.map(({ row, score }) => ({ id: this.#table.idOf(row), row, score }));
      const cut = listed.sort(byRank).slice(0, most);
      for (const { id, row } of cut) rows.set(id, row);
      return cut;
    };
    const lists: Ranked[][] = [];
    if (vector !== null) lists.push(ranked(this.#search.search(vector, most, accepted)));
    if (text !== null) lists.push(ranked(this.#byWords(text, most, accepted)));
    const results = isHybrid ? fuse(lists, limit) : (lists[0] ?? []);
    return results.map(({ id, score }) => ({
      chunk: this.#table.chunkAt(rows.get(id) ?? -1),
      score,
    }));
  }

  documents(): StoredDocument[] {
    return this.#table.documents();
  }

  chunksOf(documentId: string): Chunk[] {
    return this.#table.chunksOf(documentId);
  }

  /** Does a little of what can wait; tells whether there is more. */
  work(): boolean {
    return this.#search.work();
  }

  close(): void {
    try {
      this.#search.save();
    } finally {
      this.#vectors.close();
      this.#table.close();
    }
  }

  #takeIn(rows: number): void {
    const goal = this.#states.counts.recent - rows;
    while (this.#search.work()) if (this.#states.counts.recent <= goal) return;
  }

  #byWords(text: string, most: number, accepted: Uint8Array | null): RowHit[] {
    const accepts = (row: Row) => accepted === null || accepted[row] === 1;
    return this.#table.words.search(text, most, this.#states.used, accepts);
  }

  /** A byte for each row; null: all pass. Chunks share sets of attributes, which are fewer. */
  #accepted(filter: Filter | null): Uint8Array | null {
    if (filter === null) return null;
    const sets = new Set<number>();
    for (const { set, attributes } of this.#table.attributeSets()) {
      if (passes(filter, attributes)) sets.add(set);
    }
    return this.#states.accepted((set) => sets.has(set));
  }

  #hasVector(row: Row, vector: Float32Array): boolean {
    let isEqual = false;
    this.#vectors.read([row], (stored) => {
      isEqual = stored.every((element, place) => element === vector[place]);
    });
    return isEqual;
  }
}

function specOf(folder: string, table: ChunkTable): CorpusSpec {
  const name = table.fact("name") ?? "";
  const format = table.fact("format");
  if (format === FORMAT) {
    const dimensions = Number(table.fact("dimensions"));
    return { name, dimensions, embedder: table.fact("embedder") ?? "" };
  }
  throw new EngineError(
    "CORPUS_INVALID",
    `Cannot open a corpus: the format of ${folder} must be ${FORMAT}, current value is ` +
      `${format}; ` +
      "remove the folder and ingest again, or use the version that made it",
  );
}
