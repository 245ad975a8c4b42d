/**
 * One process per folder. The lock is the system's (flock): it ends with its process, however that
 * ends, so a crash leaves nothing to take over, and no reused process id can be mistaken for it.
 */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { constants as system } from "node:os";
import koffi from "koffi";

/** A lock that is held until it is released or the process ends. */
export interface FolderLock {
  release(): Promise<void>;
}

/** Someone else holds the lock: `owner` is their process id, as far as it is known. */
export interface LockRefused {
  readonly owner: string;
}

const LOCK_EXCLUSIVE = 2;
const LOCK_AT_ONCE = 4;
const OWNER_CHARACTERS_MAX = 20;

type Flock = (descriptor: number, operation: number) => number;

let loaded: Flock | null | undefined;

/**
 * Locks a folder through a file at `path`, which is made and stays. Rejects where the file cannot
 * be opened for writing. Where the system has no such locks (Windows, some network disks) the lock
 * is granted: two processes would then exceed the capacity together and remove each other's files,
 * which costs hits, but every file is verified when it is read.
 */
export async function lockFolder(path: string): Promise<FolderLock | LockRefused> {
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    if (!isLocked(handle)) {
      const owner = (await handle.readFile("utf8")).slice(0, OWNER_CHARACTERS_MAX).trim();
      await handle.close();
      return { owner: /^\d+$/.test(owner) ? owner : "unknown" };
    }
    await handle.truncate(0);
    await handle.write(`${process.pid}\n`, 0);
  } catch (error) {
    await handle.close();
    throw error;
  }
  // Closing the file releases the lock.
  return { release: () => handle.close() };
}

/** Takes the lock of an open file; false where somebody else has it. */
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
    return null; // An unusual libc. Whoever calls goes on without a lock.
  }
}
