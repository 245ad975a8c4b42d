/**
 * Downloads one file from the hub into the cache, resuming an earlier attempt. The client library's
 * own download starts over each time and logs to standard output, so only its look-ups are used.
 */
import { createHash, type Hash } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import {
  copyFile,
  type FileHandle,
  lstat,
  mkdir,
  open,
  rename,
  rm,
  symlink,
} from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { pipeline } from "node:stream/promises";
import { EngineError } from "#base";
import { exists } from "./hub-cache.ts";
import { statusOf } from "./hub-error.ts";

/** A file of a repository. */
export interface HubFile {
  /** Relative to the repository. */
  readonly path: string;
  readonly sizeBytes: number;
  /** Git's SHA-1 of the blob for small files, SHA-256 of the content for large ones. Hex. */
  readonly hash: string;
}

export interface DownloadOptions {
  /**
   * Requests the file's address from the hub; null if it has none. Called only if bytes are
   * missing.
   */
  readonly locate: () => Promise<string | null>;
  readonly file: HubFile;
  /** The repository's folder of blobs. */
  readonly blobs: string;
  /** The request, with built-in authorisation and cancellation. */
  readonly fetch: typeof fetch;
  /** Called after each piece with the bytes of this file that are on disk. */
  readonly onBytes: (doneBytes: number) => void;
}

/** A dropped connection is retried at once; at most this many times in a row without a byte. */
const FRUITLESS_ATTEMPTS_MAX = 5;

/** Ensures that the blob is complete in the cache; returns its path. */
export async function downloadBlob(options: DownloadOptions): Promise<string> {
  const { file, blobs } = options;
  const path = join(blobs, file.hash);
  if (await exists(path)) {
    options.onBytes(file.sizeBytes);
    return path;
  }
  await mkdir(blobs, { recursive: true });
  const incomplete = `${path}.incomplete`;
  await fetchAll(incomplete, options);
  await verify(incomplete, file);
  await rename(incomplete, path);
  return path;
}

/** Links a blob under its name in the snapshot. */
export async function linkBlob(blob: string, pointer: string): Promise<void> {
  await mkdir(dirname(pointer), { recursive: true });
  await rm(pointer, { force: true });
  try {
    await symlink(relative(dirname(pointer), blob), pointer);
  } catch {
    await copyFile(blob, pointer); // Windows without the permission to link.
  }
}

async function fetchAll(path: string, options: DownloadOptions): Promise<void> {
  const { sizeBytes } = options.file;
  await removeForeign(path);
  if ((await sizeOf(path)) > sizeBytes) await rm(path);
  if (sizeBytes === 0) await (await openOwn(path, constants.O_TRUNC)).close();
  let fruitless = 0;
  for (let done = await sizeOf(path); done < sizeBytes; ) {
    let failure: unknown = new Error("the connection brought no bytes");
    try {
      await appendRest(path, done, options);
    } catch (error) {
      // A refusal is final; only a lost connection is retried.
      if (error instanceof EngineError || statusOf(error) !== null) throw error;
      failure = error;
    }
    const reached = await sizeOf(path);
    fruitless = reached > done ? 0 : fruitless + 1;
    if (fruitless >= FRUITLESS_ATTEMPTS_MAX) throw failure;
    done = reached;
  }
}

/** Appends the response, up to its end or a dropped connection, whose error is passed on. */
async function appendRest(path: string, from: number, options: DownloadOptions): Promise<void> {
  const url = await options.locate();
  if (url === null) throw new HttpStatusError(404);
  const response = await options.fetch(
    url,
    from > 0 ? { headers: { Range: `bytes=${from}-` } } : {},
  );
  if (!response.ok || response.body === null) throw new HttpStatusError(response.status);
  // A server without support for ranges sends everything again.
  const start = response.status === 206 ? from : 0;
  const handle = await openOwn(path, start === 0 ? constants.O_TRUNC : constants.O_APPEND);
  try {
    let done = start;
    for await (const piece of response.body) {
      done += piece.byteLength;
      if (done > options.file.sizeBytes) throw tooLong(options.file, url);
      await handle.writeFile(piece);
      options.onBytes(done);
    }
  } finally {
    await handle.close();
  }
}

/** A refusal, in the form of the client library's errors (`statusCode`). */
class HttpStatusError extends Error {
  override readonly name = "HttpStatusError";
  readonly statusCode: number;

  constructor(statusCode: number) {
    super(`HTTP ${statusCode}`);
    this.statusCode = statusCode;
  }
}

async function verify(path: string, file: HubFile): Promise<void> {
  const hash = hashFor(file);
  await pipeline(createReadStream(path), hash);
  const found = hash.digest("hex");
  if (found === file.hash) return;
  await rm(path, { force: true }); // If kept, it would be resumed and fail every time.
  throw new EngineError(
    "NETWORK",
    `Cannot download ${file.path}: its hash must be ${file.hash}, current value is ${found}; ` +
      "the damaged part was removed, run the download again",
  );
}

/** Git's object hash covers a header with the size; large files are hashed without one. */
function hashFor(file: HubFile): Hash {
  if (file.hash.length === 64) return createHash("sha256");
  return createHash("sha1").update(`blob ${file.sizeBytes}\0`);
}

function tooLong(file: HubFile, url: string): EngineError {
  return new EngineError(
    "NETWORK",
    `Cannot download ${file.path}: it must have ${file.sizeBytes} bytes, current value is more; ` +
      `${new URL(url).host} sent another file, try again`,
  );
}

/** Removes a link, or a second name of another file: its target must not be written. */
async function removeForeign(path: string): Promise<void> {
  if (!(await exists(path))) return rm(path, { force: true });
  const status = await lstat(path);
  if (!status.isFile() || status.nlink > 1) await rm(path);
}

/**
 * Opens the path for writing after `removeForeign`; rejects for a link that was created since then.
 */
function openOwn(path: string, flag: number): Promise<FileHandle> {
  const { O_WRONLY, O_CREAT, O_NOFOLLOW = 0 } = constants;
  return open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | flag);
}

async function sizeOf(path: string): Promise<number> {
  return (await exists(path)) ? (await lstat(path)).size : 0;
}
