/**
 * The chunks of a corpus in a folder and an index of their words: an SQLite file. What its last
 * transaction committed is what the corpus has; vectors are written before, their index after it.
 * Texts are JSON, since SQLite's functions end a text at a zero.
 */
import sqlite, { type Database, type JSValue, type Statement } from "node-sqlite3-wasm";
import type { Attributes, Chunk } from "#rag/texts";
import { firstRow } from "./first-row.ts";
import { byText } from "./ranking.ts";
import type { Row } from "./vector-file.ts";
import type { StoredDocument } from "./vector-store.ts";
import { WordIndex } from "./word-index.ts";

/** Number of a set of attributes, which chunks share. */
export type AttributeSet = number;

/** A chunk as the table has it. */
export interface TableRow {
  readonly row: Row;
  readonly attributes: AttributeSet;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS versions (
    version INTEGER PRIMARY KEY, document TEXT NOT NULL, hash TEXT NOT NULL,
    UNIQUE (document, hash));
  CREATE TABLE IF NOT EXISTS attribute_sets (
    attributes INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE);
  CREATE TABLE IF NOT EXISTS chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
    place INTEGER NOT NULL, attributes INTEGER NOT NULL, body TEXT NOT NULL);
  CREATE INDEX IF NOT EXISTS chunks_by_version ON chunks (version, place);
  CREATE INDEX IF NOT EXISTS chunks_by_attributes ON chunks (attributes);`;

const CHUNK_COLUMNS = `chunks.row AS row, chunks.id AS id, versions.document AS document,
  versions.hash AS hash, chunks.place AS place, attribute_sets.json AS attributes,
  chunks.body AS body
  FROM chunks JOIN versions USING (version) JOIN attribute_sets USING (attributes)`;

const STATEMENTS = {
  fact: "SELECT value FROM facts WHERE name = ?",
  setFact: "INSERT OR REPLACE INTO facts VALUES (?, ?)",
  version: "SELECT version FROM versions WHERE document = ? AND hash = ?",
  addVersion: "INSERT INTO versions (document, hash) VALUES (?, ?)",
  endVersion: `DELETE FROM versions WHERE version = ?1
    AND NOT EXISTS (SELECT 1 FROM chunks WHERE version = ?1)`,
  versions: "SELECT version, hash FROM versions WHERE document = ?",
  attributes: "SELECT attributes FROM attribute_sets WHERE json = ?",
  addAttributes: "INSERT INTO attribute_sets (json) VALUES (?)",
  endAttributes: `DELETE FROM attribute_sets WHERE attributes = ?1
    AND NOT EXISTS (SELECT 1 FROM chunks WHERE attributes = ?1)`,
  find: "SELECT row, version, place, attributes, body FROM chunks WHERE id = ?",
  add: "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?)",
  remove: "DELETE FROM chunks WHERE row = ?",
  ofVersion: "SELECT row, id, version, attributes FROM chunks WHERE version = ?",
  chunk: `SELECT ${CHUNK_COLUMNS} WHERE chunks.row = ?`,
  chunks: `SELECT ${CHUNK_COLUMNS} WHERE versions.document = ?`,
  id: "SELECT id FROM chunks WHERE row = ?",
};

export class ChunkTable {
  readonly words: WordIndex;
  readonly #database: Database;
  readonly #statements: Readonly<Record<keyof typeof STATEMENTS, Statement>>;

  /** Opens the file, or makes it. Another connection must not be open. */
  constructor(path: string) {
    this.#database = new sqlite.Database(path);
    try {
      // Held as long as it is open: the log needs no shared memory then.
      this.#database.exec("PRAGMA locking_mode = EXCLUSIVE");
      this.#database.exec("PRAGMA journal_mode = WAL");
      this.#database.exec("PRAGMA synchronous = FULL");
      this.#database.exec("PRAGMA cache_size = -32000");
      this.#database.exec(SCHEMA);
      this.words = new WordIndex(this.#database);
      this.#statements = prepared(this.#database);
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  /** A fact about the corpus, e.g. its embedder; null: none of this name. */
  fact(name: string): string | null {
    const found = firstRow(this.#statements.fact, [name]);
    return found === null ? null : String(found.value);
  }

  setFact(name: string, value: string): void {
    this.#statements.setFact.run([name, value]);
  }

  /** All that is changed meanwhile is durable when it returns, or not done at all if it throws. */
  transaction<Result>(change: () => Result): Result {
    this.#database.exec("BEGIN");
    try {
      const result = change();
      this.#database.exec("COMMIT");
      return result;
    } catch (error) {
      if (this.#database.inTransaction) this.#database.exec("ROLLBACK");
      throw error;
    }
  }

  /** The row of the chunk of this id, and whether it equals `chunk`; null: there is none. */
  find(chunk: Chunk): (TableRow & { readonly isEqual: boolean }) | null {
    const found = firstRow(this.#statements.find, [quoted(chunk.id)]);
    if (found === null) return null;
    const row = Number(found.row);
    const attributes = Number(found.attributes);
    const isEqual =
      found.body === bodyOf(chunk) &&
      found.place === chunk.index &&
      found.version === this.#version(chunk) &&
      found.attributes === this.#attributes(chunk.attributes);
    return { row, attributes, isEqual };
  }

  /** Adds a chunk at a row that is not in use; returns its set of attributes. */
  add(row: Row, chunk: Chunk): AttributeSet {
    const { documentId, documentHash } = chunk;
    const version =
      this.#version(chunk) ??
      this.#insert("addVersion", [quoted(documentId), quoted(documentHash)]);
    const attributes =
      this.#attributes(chunk.attributes) ??
      this.#insert("addAttributes", [JSON.stringify(chunk.attributes)]);
    const { index } = chunk;
    const values = [row, quoted(chunk.id), version, index, attributes, bodyOf(chunk)];
    this.#statements.add.run(values);
    this.words.add(row, chunk.text);
    return attributes;
  }

  /** Removes a row and what it alone used. */
  remove(row: Row): void {
    const found = this.#database.get("SELECT version, attributes FROM chunks WHERE row = ?", [row]);
    this.#statements.remove.run([row]);
    this.words.remove(row);
    this.#statements.endVersion.run([numberOf(found?.version)]);
    this.#statements.endAttributes.run([numberOf(found?.attributes)]);
  }

  /** Rows of a document and their chunks' ids. */
  rowsOf(documentId: string): { readonly row: Row; readonly id: string }[] {
    return this.#statements.versions
      .all([quoted(documentId)])
      .flatMap(({ version }) =>
        this.#statements.ofVersion
          .all([numberOf(version)])
          .map(({ row, id }) => ({ row: Number(row), id: unquoted(id) })),
      );
  }

  idOf(row: Row): string {
    return unquoted(firstRow(this.#statements.id, [row])?.id);
  }

  chunkAt(row: Row): Chunk {
    return chunkOf(firstRow(this.#statements.chunk, [row]) ?? {});
  }

  /** Chunks of a document by their place. */
  chunksOf(documentId: string): Chunk[] {
    const chunks = this.#statements.chunks.all([quoted(documentId)]).map(chunkOf);
    return chunks.sort((one, other) => one.index - other.index || byText(one.id, other.id));
  }

  documentCount(): number {
    const found = this.#database.get("SELECT count(DISTINCT document) AS documents FROM versions");
    return Number(found?.documents ?? 0);
  }

  /** All documents, by id. */
  documents(): StoredDocument[] {
    const documents = new Map<string, StoredDocument>();
    const versions = this.#database.all(`SELECT document, hash, count(*) AS chunks
      FROM chunks JOIN versions USING (version) GROUP BY version`);
    for (const { document, hash, chunks } of versions) {
      const id = unquoted(document);
      const other = documents.get(id);
      documents.set(id, {
        id,
        hash: other === undefined ? unquoted(hash) : "",
        chunks: Number(chunks) + (other?.chunks ?? 0),
      });
    }
    return [...documents.values()].sort((one, other) => byText(one.id, other.id));
  }

  /** All sets of attributes. */
  attributeSets(): { readonly set: AttributeSet; readonly attributes: Attributes }[] {
    return this.#database
      .all("SELECT attributes, json FROM attribute_sets")
      .map(({ attributes, json }) => ({
        set: Number(attributes),
        attributes: JSON.parse(String(json)) as Attributes,
      }));
  }

  /** All rows, in ascending order, each followed by its set of attributes. */
  rows(): Int32Array {
    // As one text: an object for each row takes ten times as long.
    const found = this.#database.get(`SELECT group_concat(row || ' ' || attributes, ' ') AS rows
      FROM (SELECT row, attributes FROM chunks ORDER BY row)`);
    const rows = found?.rows ?? null;
    return rows === null ? new Int32Array() : Int32Array.from(String(rows).split(" "), Number);
  }

  close(): void {
    this.words.close();
    for (const statement of Object.values(this.#statements)) statement.finalize();
    this.#database.close();
  }

  #version({ documentId, documentHash }: Chunk): number | null {
    const found = firstRow(this.#statements.version, [quoted(documentId), quoted(documentHash)]);
    return found === null ? null : Number(found.version);
  }

  #attributes(attributes: Attributes): AttributeSet | null {
    const found = firstRow(this.#statements.attributes, [JSON.stringify(attributes)]);
    return found === null ? null : Number(found.attributes);
  }

  #insert(statement: "addVersion" | "addAttributes", values: JSValue[]): number {
    return Number(this.#statements[statement].run(values).lastInsertRowid);
  }
}

function prepared(database: Database): Record<keyof typeof STATEMENTS, Statement> {
  const entries = Object.entries(STATEMENTS).map(([name, sql]) => [name, database.prepare(sql)]);
  return Object.fromEntries(entries) as Record<keyof typeof STATEMENTS, Statement>;
}

function bodyOf({ text, place }: Chunk): string {
  return JSON.stringify([text, place.lines, place.page, place.headings]);
}

function chunkOf(found: Readonly<Record<string, unknown>>): Chunk {
  const [text, lines, page, headings] = JSON.parse(String(found.body));
  return {
    id: unquoted(found.id),
    documentId: unquoted(found.document),
    documentHash: unquoted(found.hash),
    index: Number(found.place),
    text,
    place: { lines, page, headings },
    attributes: JSON.parse(String(found.attributes)) as Attributes,
  };
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

function unquoted(value: unknown): string {
  return String(JSON.parse(String(value)));
}

function numberOf(value: unknown): number {
  return Number(value ?? -1);
}
