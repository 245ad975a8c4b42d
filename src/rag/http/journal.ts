/** Records that survive the process: a file of lines, each a change; written, then synced. */
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { EngineError, isPlainObject, messageOf } from "#base";
import { syncFolder } from "./durable-files.ts";

/** One change; null: the record is gone. */
export interface JournalEntry {
  readonly key: string;
  readonly value: object | null;
}

const HEADER = '{"format":"perigee-rag-http-1"}\n';
/** Bytes of superseded lines from which on the file is written anew. */
const WASTE_BYTES_MIN = 2 ** 20;
/** Lines that are made in one turn of the event loop. */
const LINES_AT_ONCE = 500;

interface Waiting {
  readonly entries: readonly JournalEntry[];
  resolve(): void;
  reject(reason: unknown): void;
}

/**
 * A journal of records by key. A line that was cut off by the end of the process is dropped when
 * the journal is opened; all changes whose promise resolved are there. Changes that wait are
 * written together, with one sync.
 */
export class Journal {
  readonly #path: string;
  #file: FileHandle;
  /** Lines of the records that are there now, in bytes, by key. */
  readonly #lines: Map<string, number>;
  readonly #values: Map<string, object>;
  #fileBytes: number;
  #liveBytes = 0;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | null = null;
  #failure: EngineError | null = null;

  private constructor(path: string, file: FileHandle, read: ReadJournal) {
    this.#path = path;
    this.#file = file;
    this.#values = read.values;
    this.#lines = read.lines;
    this.#fileBytes = read.bytes;
    for (const bytes of read.lines.values()) this.#liveBytes += bytes;
  }

  /** Opens or makes the journal. Throws IO where it cannot be read. */
  static async open(path: string): Promise<Journal> {
    let file: FileHandle | null = null;
    try {
      await rm(unfinished(path), { force: true });
      file = await open(path, "a+");
      const read = readLines(await file.readFile("utf8"), path);
      if (read.bytes === 0) {
        await file.truncate(0);
        await file.appendFile(HEADER);
      } else await file.truncate(read.bytes);
      await file.sync();
      await syncFolder(dirname(path));
      return new Journal(path, file, { ...read, bytes: Math.max(read.bytes, HEADER.length) });
    } catch (error) {
      await file?.close();
      if (error instanceof EngineError) throw error;
      const message = `Cannot open ${path}: ${messageOf(error)}`;
      throw new EngineError("IO", message, { cause: error });
    }
  }

  /** All records, by key. */
  get values(): ReadonlyMap<string, object> {
    return this.#values;
  }

  /** Bytes of the records that are there. */
  get liveBytes(): number {
    return this.#liveBytes;
  }

  /**
   * Makes changes, in order. They can be read at once, and are durable when the promise resolves.
   * Rejects with IO where the disk fails: then all later ones do.
   */
  write(entries: readonly JournalEntry[]): Promise<void> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    for (const { key, value } of entries) {
      if (value === null) this.#values.delete(key);
      else this.#values.set(key, value);
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ entries, resolve, reject });
      this.#writing ??= this.#work();
    });
  }

  /** Settles when all changes are written. */
  async close(): Promise<void> {
    while (this.#writing !== null) await this.#writing;
    await this.#file.close();
  }

  async #work(): Promise<void> {
    // In one turn, so that changes of the same moment share a sync.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0);
      try {
        await this.#append(batch.flatMap(({ entries }) => entries));
        for (const { resolve } of batch) resolve();
        if (this.#fileBytes - this.#liveBytes > WASTE_BYTES_MIN + this.#liveBytes) {
          await this.#writeAnew();
        }
      } catch (error) {
        const reason = messageOf(error);
        const message = `Cannot write ${this.#path}: ${reason}; free the disk, then restart`;
        this.#failure = new EngineError("IO", message, { cause: error });
        for (const { reject } of [...batch, ...this.#waiting.splice(0)]) reject(this.#failure);
      }
    }
    this.#writing = null;
  }

  async #append(entries: readonly JournalEntry[]): Promise<void> {
    for (let from = 0; from < entries.length; from += LINES_AT_ONCE) {
      const lines = entries.slice(from, from + LINES_AT_ONCE).map(({ key, value }) => {
        const line = lineOf(key, value);
        this.#count(key, value === null ? 0 : Buffer.byteLength(line));
        return line;
      });
      const bytes = Buffer.from(lines.join(""));
      await this.#file.appendFile(bytes);
      this.#fileBytes += bytes.length;
    }
    await this.#file.datasync();
  }

  #count(key: string, bytes: number): void {
    this.#liveBytes += bytes - (this.#lines.get(key) ?? 0);
    if (bytes === 0) this.#lines.delete(key);
    else this.#lines.set(key, bytes);
  }

  /** The records as they are, in a new file that takes the old one's place. */
  async #writeAnew(): Promise<void> {
    const path = unfinished(this.#path);
    const file = await open(path, "w");
    let written = HEADER.length;
    await file.appendFile(HEADER);
    // Changes that come meanwhile are appended behind: the last line of a key counts.
    const keys = [...this.#values.keys()];
    for (let from = 0; from < keys.length; from += LINES_AT_ONCE) {
      const lines = keys.slice(from, from + LINES_AT_ONCE).flatMap((key) => {
        const value = this.#values.get(key);
        return value === undefined ? [] : [lineOf(key, value)];
      });
      const bytes = Buffer.from(lines.join(""));
      written += bytes.length;
      await file.appendFile(bytes);
    }
    await file.sync();
    await rename(path, this.#path);
    await syncFolder(dirname(this.#path));
    await this.#file.close();
    this.#file = file;
    this.#fileBytes = written;
  }
}

interface ReadJournal {
  readonly values: Map<string, object>;
  readonly lines: Map<string, number>;
  /** Of whole lines. */
  readonly bytes: number;
}

function readLines(text: string, path: string): ReadJournal {
  const values = new Map<string, object>();
  const lines = new Map<string, number>();
  const end = text.lastIndexOf("\n") + 1;
  const [header, ...rest] = text.slice(0, end).split("\n").slice(0, -1);
  if (header === undefined) return { values, lines, bytes: 0 };
  if (`${header}\n` !== HEADER) throw unreadable(path, 1);
  for (const [place, line] of rest.entries()) {
    const [key, value] = entryOf(line) ?? [];
    // Lines before the last one were synced before it was written.
    if (key === undefined || value === undefined) throw unreadable(path, place + 2);
    if (value === null) {
      values.delete(key);
      lines.delete(key);
    } else {
      values.set(key, value);
      lines.set(key, Buffer.byteLength(line) + 1);
    }
  }
  return { values, lines, bytes: Buffer.byteLength(text.slice(0, end)) };
}

function entryOf(line: string): readonly [string, object | null] | null {
  try {
    const entry: unknown = JSON.parse(line);
    if (!Array.isArray(entry) || typeof entry[0] !== "string") return null;
    return entry[1] === null || isPlainObject(entry[1]) ? [entry[0], entry[1]] : null;
  } catch {
    return null;
  }
}

function unreadable(path: string, line: number): EngineError {
  return new EngineError(
    "IO",
    `Cannot read ${path}: line ${line} must be one that a server of this version wrote; restore ` +
      "the file from a copy, or use another folder",
  );
}

function lineOf(key: string, value: object | null): string {
  return `${JSON.stringify([key, value])}\n`;
}

function unfinished(path: string): string {
  return join(dirname(path), "journal.unfinished");
}
