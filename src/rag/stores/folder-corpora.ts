/** All corpora of a folder, each in a folder of its own below it; those in use are open. */
import { createHash, randomUUID } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { EngineError } from "#base";
import { checkCorpus, checkName } from "./argument-checks.ts";
import { sameCorpus, unknownCorpus } from "./corpus-errors.ts";
import { FolderCorpus, type FolderSearchOptions } from "./folder-corpus.ts";
import { folderError } from "./folder-errors.ts";
import { byText } from "./ranking.ts";
import type { CorpusInfo, CorpusSpec } from "./vector-store.ts";

/** Of the folder as a whole. */
const FORMAT = "perigee-store-1";
const FORMAT_FILE = "store.json";
/** Corpora that are open at a time: each has its files, and up to 32 MB of pages. */
const OPEN_MAX = 16;
/** Of folders that are being made or removed; no corpus's folder begins so. */
const UNFINISHED = ".";

export class FolderCorpora {
  readonly #folder: string;
  readonly #options: FolderSearchOptions;
  /** By name, the one used longest ago first. */
  readonly #open = new Map<string, FolderCorpus>();

  /** Opens a folder of which this process holds the lock; makes it, where there is none. */
  constructor(folder: string, options: FolderSearchOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#guarded("open the store", () => prepareFolder(folder));
  }

  create(spec: CorpusSpec): void {
    checkCorpus(spec);
    const path = this.#path(spec.name);
    this.#guarded("make a corpus", () => {
      if (existsSync(path)) return sameCorpus(this.#corpus(spec.name).spec, spec);
      const unfinished = this.#unfinished();
      mkdirSync(unfinished);
      FolderCorpus.make(unfinished, spec);
      renameSync(unfinished, path);
      syncFolder(this.#corporaFolder);
    });
  }

  corpora(): CorpusInfo[] {
    return this.#guarded("list corpora", () => {
      const names = readdirSync(this.#corporaFolder).filter((name) => !name.startsWith(UNFINISHED));
      return names
        .map((name) => this.#corpus(name.slice(0, name.lastIndexOf("."))).info())
        .sort((one, other) => byText(one.name, other.name));
    });
  }

  corpus(name: string): CorpusInfo | null {
    checkName(name);
    if (!existsSync(this.#path(name))) return null;
    return this.with(name, "open a corpus", (corpus) => corpus.info());
  }

  drop(name: string): void {
    checkName(name);
    this.#guarded("remove a corpus", () => {
      if (!existsSync(this.#path(name))) return;
      this.#close(name);
      const unfinished = this.#unfinished();
      renameSync(this.#path(name), unfinished);
      syncFolder(this.#corporaFolder);
      rmSync(unfinished, { recursive: true, force: true });
    });
  }

  /** Calls with an open corpus. After a failure of the system it is opened anew the next time. */
  with<Result>(name: string, action: string, use: (corpus: FolderCorpus) => Result): Result {
    checkName(name);
    return this.#guarded(action, () => {
      const corpus = this.#corpus(name);
      try {
        return use(corpus);
      } catch (error) {
        if (!(error instanceof EngineError)) this.#abandon(name);
        throw error;
      }
    });
  }

  /** Does a little of what can wait; tells whether there is more. */
  work(): boolean {
    let isMore = false;
    for (const [name, corpus] of this.#open) {
      try {
        isMore = corpus.work() || isMore;
      } catch {
        // What can wait is part of no call: the next one opens the corpus anew, and tells.
        this.#abandon(name);
      }
    }
    return isMore;
  }

  close(): void {
    this.#guarded("close the store", () => {
      for (const name of [...this.#open.keys()]) this.#close(name);
    });
  }

  get #corporaFolder(): string {
    return join(this.#folder, "corpora");
  }

  /** Names that differ in case alone are one file on some systems: their digests are not. */
  #path(name: string): string {
    const digest = createHash("sha256").update(name).digest("hex").slice(0, 8);
    return join(this.#corporaFolder, `${name}.${digest}`);
  }

  #unfinished(): string {
    return join(this.#corporaFolder, `${UNFINISHED}${randomUUID()}`);
  }

  #corpus(name: string): FolderCorpus {
    const path = this.#path(name);
    const corpus = this.#open.get(name) ?? this.#opened(name, path);
    this.#open.delete(name);
    this.#open.set(name, corpus);
    const [oldest = name] = this.#open.keys();
    if (this.#open.size > OPEN_MAX) this.#close(oldest);
    return corpus;
  }

  #opened(name: string, path: string): FolderCorpus {
    if (!existsSync(path)) throw unknownCorpus(name);
    // A killed process leaves SQLite's own lock behind; the store's lock is ours.
    rmSync(join(path, "chunks.sqlite.lock"), { recursive: true, force: true });
    return FolderCorpus.open(path, this.#options);
  }

  #close(name: string): void {
    const corpus = this.#open.get(name);
    this.#open.delete(name);
    corpus?.close();
  }

  #abandon(name: string): void {
    try {
      this.#close(name);
    } catch {
      // It failed before, and its caller is told so; what was committed is on disk.
    }
  }

  #guarded<Result>(action: string, use: () => Result): Result {
    try {
      return use();
    } catch (error) {
      throw folderError(action, this.#folder, error);
    }
  }
}

function prepareFolder(folder: string): void {
  const path = join(folder, FORMAT_FILE);
  if (!existsSync(path)) {
    mkdirSync(join(folder, "corpora"), { recursive: true });
    writeFileSync(`${path}.new`, `${JSON.stringify({ format: FORMAT })}\n`);
    renameSync(`${path}.new`, path);
    syncFolder(folder);
  }
  const { format } = JSON.parse(readFileSync(path, "utf8")) as { format?: unknown };
  if (format !== FORMAT) {
    throw new EngineError(
      "STORE_UNAVAILABLE",
      `Cannot open the store: the format of ${folder} must be ${FORMAT}, current value is ` +
        `${format}; use the version that made it, or another folder`,
    );
  }
  for (const name of readdirSync(join(folder, "corpora"))) {
    if (!name.startsWith(UNFINISHED)) continue;
    rmSync(join(folder, "corpora", name), { recursive: true, force: true });
  }
}

/** Makes a renaming durable; systems without such a call order it themselves. */
function syncFolder(folder: string): void {
  if (process.platform === "win32") return;
  const file = openSync(folder, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
