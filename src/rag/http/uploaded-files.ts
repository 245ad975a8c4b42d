/** Uploaded files: their bytes on the disk, their records in the book. */
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { EngineError, messageOf } from "#base";
import { HttpError } from "#server";
import type { Book } from "./book.ts";
import type { RagServing } from "./config.ts";
import { syncFolder } from "./durable-files.ts";
import { ID_PREFIX } from "./identifiers.ts";
import type { FileRecord } from "./records.ts";

/** A file that has arrived, in the folder of incoming ones. */
export interface Upload {
  readonly path: string;
  readonly filename: string;
  readonly purpose: string;
  readonly bytes: number;
  readonly hash: string;
  /** Null: it never expires. */
  readonly expiresAfterSeconds: number | null;
}

/** Room on the disk that an upload may fill; given back when it is over. */
export interface Reservation {
  release(): void;
}

type Limits = Pick<RagServing, "fileBytesMax" | "totalBytesMax" | "filesMax">;

/** Endings of names that stay on the disk: what a reader goes by. */
const ENDING = /\.[a-z0-9]{1,12}$/i;

export class UploadedFiles {
  readonly #book: Book;
  readonly #folder: string;
  readonly #incoming: string;
  readonly #limits: Limits;
  #reservedBytes = 0;
  #reservedFiles = 0;

  private constructor(book: Book, folder: string, limits: Limits) {
    this.#book = book;
    this.#folder = join(folder, "files");
    this.#incoming = join(folder, "incoming");
    this.#limits = limits;
  }

  /** Opens the files below a folder, and removes what has no record: interrupted uploads. */
  static async open(book: Book, folder: string, limits: Limits): Promise<UploadedFiles> {
    const files = new UploadedFiles(book, folder, limits);
    await rm(files.#incoming, { recursive: true, force: true });
    await mkdir(files.#incoming, { recursive: true, mode: 0o700 });
    await mkdir(files.#folder, { recursive: true, mode: 0o700 });
    for (const name of await readdir(files.#folder)) {
      if (!name.startsWith(ID_PREFIX.file) || book.file(name) !== null) continue;
      await rm(join(files.#folder, name), { recursive: true, force: true });
    }
    return files;
  }

  /** Where uploads are written, each under a name of its own. */
  get incoming(): string {
    return this.#incoming;
  }

  /** Where the folders of files are. */
  get folder(): string {
    return this.#folder;
  }

  /** Most bytes of one file. */
  get fileBytesMax(): number {
    return this.#limits.fileBytesMax;
  }

  /** Room for an upload of at most so many bytes. Throws INVALID_ARGUMENT, HttpError 413. */
  reserve(bytesMax: number): Reservation {
    const { filesMax, totalBytesMax } = this.#limits;
    const files = this.#book.fileCount + this.#reservedFiles;
    if (files >= filesMax) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot upload: at most ${filesMax} files are kept, current value is ${files}; delete ` +
          "some, or start the server with a larger --rag-files-max",
        { param: "file" },
      );
    }
    const bytes = this.#book.fileBytes + this.#reservedBytes;
    if (bytes + bytesMax > totalBytesMax) {
      throw new HttpError(
        413,
        "storage_full",
        `Cannot upload: all files may have ${totalBytesMax} bytes together, ${bytes} are taken ` +
          `and this one may have ${bytesMax}; delete files, or start the server with a larger ` +
          "--rag-total-bytes-max",
      );
    }
    this.#book.checkRoom();
    this.#reservedBytes += bytesMax;
    this.#reservedFiles++;
    return {
      release: () => {
        this.#reservedBytes -= bytesMax;
        this.#reservedFiles--;
      },
    };
  }

  /** Keeps an upload: durable when the promise resolves. */
  async add(upload: Upload, nowSeconds: number): Promise<FileRecord> {
    const { path, expiresAfterSeconds, ...fields } = upload;
    const expiresAt = expiresAfterSeconds === null ? null : nowSeconds + expiresAfterSeconds;
    const file = { ...this.#book.next("file"), ...fields, createdAt: nowSeconds, expiresAt };
    await this.#onDisk("keep a file", async () => {
      const folder = join(this.#folder, file.id);
      await mkdir(folder, { mode: 0o700 });
      await rename(path, this.path(file));
      await syncFolder(folder);
      await syncFolder(this.#folder);
    });
    await this.#book.write([{ file }]);
    return file;
  }

  /** All files, in the order of their upload. */
  list(): FileRecord[] {
    return this.#book.files;
  }

  /** Throws HttpError 404. */
  get(id: string): FileRecord {
    const file = this.#book.file(id);
    if (file !== null) return file;
    throw new HttpError(404, "not_found", `Cannot find file ${id}: there is none of this id`);
  }

  /** Where a file's bytes are. */
  path(file: FileRecord): string {
    return join(this.#folder, this.relativePath(file));
  }

  /** The same, below the folder of files. */
  relativePath({ id, filename }: FileRecord): string {
    return join(id, `content${ENDING.exec(filename)?.[0].toLowerCase() ?? ""}`);
  }

  /** Forgets a file that no store has. */
  async remove(file: FileRecord): Promise<void> {
    await this.#book.write([{ file, gone: true }]);
    // Whatever stays has no record, and goes at the next start.
    await this.#onDisk("delete a file", () =>
      rm(join(this.#folder, file.id), { recursive: true, force: true }),
    );
  }

  async #onDisk<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw new EngineError("IO", `Cannot ${what}: ${messageOf(error)}`, { cause: error });
    }
  }
}
