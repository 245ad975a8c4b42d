/**
 * The lock of a folder: a file that says which process has it. A process of this machine that has
 * ended has lost it; of another machine, one that gave no sign for 30 s.
 */
import { randomUUID } from "node:crypto";
import {
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { EngineError, isPlainObject } from "#base";
import { folderError } from "./folder-errors.ts";

const FILE = "lock";
const SIGN_EVERY_MS = 5000;
const LOST_AFTER_MS = 30_000;
/** Others may find it taken over as often as they try at one time, and then one has it. */
const ATTEMPTS = 5;

/** What the file says. */
interface LockFile {
  readonly token: string;
  readonly pid: number;
  /** When the process began, as the system counts it: numbers of processes are used again. */
  readonly started: string | null;
  /** The machine, and on it the container. */
  readonly place: string;
}

export class FolderLock {
  readonly #path: string;
  readonly #token: string;
  readonly #signs: NodeJS.Timeout;

  private constructor(path: string, token: string) {
    this.#path = path;
    this.#token = token;
    this.#signs = setInterval(() => this.#sign(), SIGN_EVERY_MS).unref();
  }

  /** Takes the lock of a folder, which is made where there is none. STORE_UNAVAILABLE: held. */
  static take(folder: string): FolderLock {
    const path = join(folder, FILE);
    const mine = {
      token: randomUUID(),
      pid: process.pid,
      started: startOf(process.pid),
      place: placeOfProcess(),
    };
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (isWritten(path, mine)) return new FolderLock(path, mine.token);
        const found = textOf(path);
        if (found !== null && !isLost(path, found)) throw heldError(folder, found);
        if (found !== null) takeAway(path, found);
      }
      throw heldError(folder, textOf(path) ?? "");
    } catch (error) {
      throw folderError("open the store", folder, error);
    }
  }

  /** May be called repeatedly. A lock that was taken over stays with its new holder. */
  release(): void {
    clearInterval(this.#signs);
    if (this.#isMine()) rmSync(this.#path, { force: true });
  }

  #sign(): void {
    try {
      const now = new Date();
      if (this.#isMine()) utimesSync(this.#path, now, now);
    } catch {
      // The folder may be out of reach for a while; the next sign may arrive.
    }
  }

  #isMine(): boolean {
    return parsed(textOf(this.#path) ?? "")?.token === this.#token;
  }
}

/** False: there is one. */
function isWritten(path: string, lock: LockFile): boolean {
  try {
    writeFileSync(path, JSON.stringify(lock), { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** Null: there is none. */
function textOf(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

function isLost(path: string, text: string): boolean {
  const lock = parsed(text);
  if (lock !== null && lock.place === placeOfProcess()) {
    return !isAlive(lock.pid) || startOf(lock.pid) !== lock.started;
  }
  // Both times are the file system's, whose clock may differ from ours.
  const probe = `${path}.${randomUUID()}`;
  writeFileSync(probe, "", { mode: 0o600 });
  const nowMs = statSync(probe).mtimeMs;
  rmSync(probe);
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined || nowMs - found.mtimeMs > LOST_AFTER_MS;
}

/** Of several processes that find a lock lost, one renames the file; it puts back another's. */
function takeAway(path: string, lost: string): void {
  const aside = `${path}.${randomUUID()}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    throw error;
  }
  if (textOf(aside) === lost) rmSync(aside);
  else renameSync(aside, path);
}

function parsed(text: string): LockFile | null {
  try {
    const value: unknown = JSON.parse(text);
    if (!isPlainObject(value) || typeof value.token !== "string") return null;
    const { token, pid, started, place } = value;
    return { token, pid: Number(pid), started: started as string | null, place: String(place) };
  } catch {
    return null;
  }
}

function heldError(folder: string, text: string): EngineError {
  const lock = parsed(text);
  const isHere = lock?.place === placeOfProcess();
  const holder =
    lock?.pid === process.pid && isHere ? "this process" : `process ${lock?.pid ?? "?"}`;
  const machine = lock === null || isHere ? "" : ` of ${lock.place}`;
  return new EngineError(
    "STORE_UNAVAILABLE",
    `Cannot open the store: one process at a time may use ${folder}, current value is ` +
      `${holder}${machine}; close the store there, or use that server's HTTP API`,
    isHere ? {} : { retryAfterSeconds: LOST_AFTER_MS / 1000 },
  );
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}

/** Null where the system does not tell, and of a process that ended and is still listed. */
function startOf(pid: number): string | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in parentheses may have spaces; the start is the 20th field behind it.
    const [state, ...fields] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return state === "Z" || state === "X" ? null : (fields[18] ?? null);
  } catch {
    return null;
  }
}

/** Containers have names of their own for processes, and sometimes one name for themselves. */
function placeOfProcess(): string {
  try {
    return `${hostname()} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return hostname();
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : null;
}
