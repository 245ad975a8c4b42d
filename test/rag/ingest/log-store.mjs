/**
 * A store in one file that is appended to, for processes that are killed: what `documents` and
 * `chunksOf` tell is what was written before. A batch is written chunk by chunk, so that a part of
 * it may be there, and of documents of several versions it tells one of them, by a choice.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";

/** All chunks in a log, by id. @param {string} path */
export function readLog(path) {
  const chunks = new Map();
  if (!existsSync(path)) return chunks;
  for (const line of readFileSync(path, "utf8").split("\n")) {
    if (!line.endsWith("}")) continue; // the last one, of a process that was killed
    const { stored, removed } = JSON.parse(line);
    if (stored !== undefined) {
      chunks.delete(stored.id);
      chunks.set(stored.id, stored);
    } else chunks.delete(removed);
  }
  return chunks;
}

/** Documents of chunks. @param {Map<string, object>} chunks @param {boolean} tellsFirst */
export function documentsIn(chunks, tellsFirst) {
  const found = new Map();
  for (const { documentId: id, documentHash } of chunks.values()) {
    const before = found.get(id);
    const hash = tellsFirst ? (before?.hash ?? documentHash) : documentHash;
    found.set(id, { id, hash, chunks: (before?.chunks ?? 0) + 1 });
  }
  return [...found.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
}

export class LogStore {
  #path;
  #chunks;
  #tellsFirst;
  #onWrite;

  /** @param {string} path @param {boolean} tellsFirst @param {() => void} onWrite */
  constructor(path, tellsFirst, onWrite) {
    this.#path = path;
    this.#chunks = readLog(path);
    this.#tellsFirst = tellsFirst;
    this.#onWrite = onWrite;
    // A line that was begun is left as it is.
    if (existsSync(path)) appendFileSync(path, "\n");
  }

  async create() {}

  async documents() {
    return documentsIn(this.#chunks, this.#tellsFirst);
  }

  async chunksOf(_corpus, documentId) {
    const own = [...this.#chunks.values()].filter((chunk) => chunk.documentId === documentId);
    return own.sort((one, other) => one.index - other.index);
  }

  async upsert(_corpus, chunks) {
    for (const { vector, ...stored } of chunks) {
      this.#write({ stored: { ...stored, vector: [...vector] } });
      this.#chunks.delete(stored.id);
      this.#chunks.set(stored.id, stored);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }

  async deleteDocument(_corpus, documentId, keep = new Set()) {
    let count = 0;
    for (const { id, documentId: own } of [...this.#chunks.values()]) {
      if (own !== documentId || keep.has(id)) continue;
      this.#write({ removed: id });
      this.#chunks.delete(id);
      count++;
    }
    await new Promise((resolve) => setImmediate(resolve));
    return count;
  }

  #write(entry) {
    this.#onWrite();
    appendFileSync(this.#path, `${JSON.stringify(entry)}\n`);
  }
}
