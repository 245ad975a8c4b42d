/**
 * The file operations of the disk level, as an interface, so that a test can simulate a full or
 * failing disk. Every one of them may reject with the system's error.
 */
import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/** A regular file that is open for reading. */
export interface DiskFile {
  readonly bytes: number;
  /** When it was last written, in milliseconds since 1970. */
  readonly writtenMs: number;
  /** Fills `parts` from the file's start on; false where it ends before they are full. */
  read(parts: readonly Uint8Array[]): Promise<boolean>;
  close(): Promise<void>;
}

/** The part of a file system that the disk level needs. Only the owner may access the files. */
export interface DiskFiles {
  /** Makes a folder and those above it; one that exists stays as it is. */
  makeFolder(path: string): Promise<void>;
  /** Names in a folder. */
  list(path: string): Promise<readonly string[]>;
  /** Whether the path is a folder, and no link to one. */
  isFolder(path: string): Promise<boolean>;
  /** Opens a regular file; anything else (a link, a pipe, a folder) rejects. */
  open(path: string): Promise<DiskFile>;
  /** Creates a file of all `parts`; one that exists rejects. A failure may leave a part of it. */
  create(path: string, parts: readonly Uint8Array[]): Promise<void>;
  /** Replaces `to`, at once and as a whole. */
  rename(from: string, to: string): Promise<void>;
  /** Removes a file; no error where it does not exist. */
  remove(path: string): Promise<void>;
}

const FOLDER_MODE = 0o700;
/** Codes of a file that does not exist. */
const MISSING: readonly unknown[] = ["ENOENT", "ENOTDIR"];
/** Codes of a path that exists and is no file: a link, a pipe without a writer, a folder. */
const NO_FILE: readonly unknown[] = ["ELOOP", "ENXIO", "EISDIR"];

/**
 * The state of a file by a failure to read it: `missing`, not one of ours (`wrong`), or `unknown`.
 * Too many open files, no memory, a busy or broken device and a missing right are temporary or can
 * be repaired: the file may be whole.
 */
export function judgeFailure(error: unknown): "missing" | "wrong" | "unknown" {
  const code = codeOf(error);
  if (MISSING.includes(code)) return "missing";
  return code === undefined || NO_FILE.includes(code) ? "wrong" : "unknown";
}

/** The machine's own file system. */
export const systemFiles: DiskFiles = {
  makeFolder: (path) => makeFolder(resolve(path)),
  list: (path) => readdir(path),
  isFolder: async (path) => (await lstat(path)).isDirectory(),
  open: async (path) => {
    // Opening a pipe would wait for its writer, following a link would leave the folder.
    const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
    const handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    return closingOnError(handle, async () => {
      const status = await handle.stat();
      if (!status.isFile()) throw new Error("it is not a regular file");
      return {
        bytes: status.size,
        writtenMs: status.mtimeMs,
        read: (parts) => readFully(handle, parts),
        close: () => handle.close(),
      };
    });
  },
  create: async (path, parts) => {
    const handle = await open(path, "wx", 0o600);
    await closingOnError(handle, () => writeFully(handle, parts));
    await handle.close();
  },
  rename: (from, to) => rename(from, to),
  remove: (path) => rm(path, { force: true }),
};

/**
 * Makes one folder after the other: Node's recursive mkdir never ends where a parent exists and
 * takes no folders, as /proc.
 */
async function makeFolder(path: string): Promise<void> {
  const make = () => mkdir(path, { mode: FOLDER_MODE });
  try {
    await make();
  } catch (error) {
    if (isCode(error, "EEXIST")) return;
    const parent = dirname(path);
    if (!isCode(error, "ENOENT") || parent === path) throw error;
    await makeFolder(parent);
    // Another process may have made it meanwhile.
    await make().catch((again: unknown) => {
      if (!isCode(again, "EEXIST")) throw again;
    });
  }
}

function isCode(error: unknown, code: string): boolean {
  return codeOf(error) === code;
}

/** The system's error code; undefined for an error that is not the system's. */
function codeOf(error: unknown): unknown {
  return typeof error === "object" && error !== null ? Reflect.get(error, "code") : undefined;
}

async function closingOnError<T>(handle: FileHandle, use: () => Promise<T>): Promise<T> {
  try {
    return await use();
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** The system may move fewer bytes than requested, so both continue with the rest. */
async function readFully(handle: FileHandle, parts: readonly Uint8Array[]): Promise<boolean> {
  let rest = parts.filter((part) => part.length > 0);
  for (let position = 0; rest.length > 0; ) {
    const { bytesRead } = await handle.readv(rest, position);
    if (bytesRead === 0) return false;
    position += bytesRead;
    rest = withoutFirst(rest, bytesRead);
  }
  return true;
}

async function writeFully(handle: FileHandle, parts: readonly Uint8Array[]): Promise<void> {
  let rest = parts.filter((part) => part.length > 0);
  for (let position = 0; rest.length > 0; ) {
    const { bytesWritten } = await handle.writev(rest, position);
    position += bytesWritten;
    rest = withoutFirst(rest, bytesWritten);
  }
}

function withoutFirst(parts: readonly Uint8Array[], bytes: number): Uint8Array[] {
  const rest: Uint8Array[] = [];
  let skipped = bytes;
  for (const part of parts) {
    if (skipped < part.length) rest.push(part.subarray(skipped));
    skipped = Math.max(0, skipped - part.length);
  }
  return rest;
}
