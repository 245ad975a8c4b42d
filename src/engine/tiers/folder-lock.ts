/**
 * One process per folder. The lock is the system's (flock): it ends with its process, however that
 * ends, so a crash leaves no stale lock, and no reused process id can be mistaken for it.
 */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { constants as system } from "node:os";
import koffi from "koffi";
import { foreignWriter } from "#base";

/** A lock that is held until it is released or the process ends. */
export interface FolderLock {
  release(): Promise<void>;
}

/** Another process holds the lock: `owner` is its id, as far as it is known. */
export interface LockRefused {
  readonly owner: string;
}

const LOCK_EXCLUSIVE = 2;
const LOCK_AT_ONCE = 4;
/** A process id, padded: the file is overwritten, never truncated, whatever its contents. */
const OWNER_CHARACTERS = 20;
const LOCK_BYTES_MAX = 64;

type Flock = (descriptor: number, operation: number) => number;

let loaded: Flock | null | undefined;

/**
 * Locks a folder through a file at `path`, which is created and stays. Rejects where the file
 * cannot be opened for writing, and where it is none of ours (a link, a pipe, another text, another
 * user's): such a file is left as it is. Where the system has no such locks (Windows, some network
 * disks) the lock is granted: two processes would then exceed the capacity together and remove each
 * other's files, which costs hits, but every file is verified when it is read.
 */
export async function lockFolder(path: string): Promise<FolderLock | LockRefused> {
  const handle = await openLock(path);
  try {
    const owner = await ownerIn(handle);
    if (!isLocked(handle)) {
      await handle.close();
      return { owner: owner === "" ? "unknown" : owner };
    }
    await handle.write(`${String(process.pid).padEnd(OWNER_CHARACTERS)}\n`, 0);
  } catch (error) {
    await handle.close();
    throw error;
  }
  // Closing the file releases the lock.
  return { release: () => handle.close() };
}

/** Follows no link, which may lead to a foreign file, and does not wait for a pipe's reader. */
async function openLock(path: string): Promise<FileHandle> {
  const { O_RDWR, O_CREAT, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
  try {
    return await open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
  } catch (error) {
    const isLink = Reflect.get(Object(error), "code") === "ELOOP";
    throw isLink ? new Error("its file lock is a symbolic link", { cause: error }) : error;
  }
}

/** The process id in a lock's file; "" in a new one. Throws for a file that is no lock of ours. */
async function ownerIn(handle: FileHandle): Promise<string> {
  const status = await handle.stat();
  const foreign = foreignWriter(status, process.getuid?.());
  if (foreign !== null) throw new Error(`its file lock cannot be trusted: ${foreign}`);
  const bytes = Buffer.alloc(LOCK_BYTES_MAX);
  const isPlain = status.isFile() && status.nlink === 1 && status.size <= LOCK_BYTES_MAX;
  const length = isPlain ? (await handle.read(bytes, 0, LOCK_BYTES_MAX, 0)).bytesRead : 0;
  const text = bytes.toString("latin1", 0, length);
  if (!isPlain || !/^\d*\s*$/.test(text)) {
    throw new Error("its file lock holds something else than a process id");
  }
  return text.trim();
}

/** Takes the lock of an open file; false where another process holds it. */
function isLocked(handle: FileHandle): boolean {
  loaded ??= process.platform === "win32" ? null : load();
  if (loaded === null || loaded(handle.fd, LOCK_EXCLUSIVE | LOCK_AT_ONCE) === 0) return true;
  return koffi.errno() !== system.errno.EWOULDBLOCK;
}

function load(): Flock | null {
  try {
    const flock = koffi.load(null).func("int flock(int descriptor, int operation)");
    return (descriptor, operation) => flock(descriptor, operation) as number; // koffi is untyped
  } catch {
    return null; // An unusual libc: callers continue without a lock.
  }
}
