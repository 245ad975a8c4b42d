/**
 * Compiled kernels on disk. A file is named after the kernel's file and a hash of everything that
 * its machine code depends on, and begins with the SHA-256 of the machine code: a truncated or
 * changed file is no entry.
 */
import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { threadId } from "node:worker_threads";
import { foreignWriter } from "#base";
import type { CudaVersion } from "#devices/cuda/driver";
import type { KernelText } from "./kernel-text.ts";

/** Everything besides the source that machine code depends on. */
export interface KernelTarget {
  readonly architecture: string;
  readonly options: readonly string[];
  readonly nvrtcVersion: CudaVersion;
  readonly driverVersion: CudaVersion;
}

const digestBytes = 32;
/** Kept entries of one kernel: some versions, GPUs and drivers side by side. */
const entriesMax = 8;
const userOnly = 0o700;

/**
 * A folder of compiled kernels. An unusable folder (of another user, writable by others, read-only,
 * on a full disk) costs compilations, never a failure; `warn` is called once.
 */
export class KernelCache {
  readonly #folder: string | null;
  readonly #warn: (message: string) => void;
  #warned = false;

  /** `folder`: created when it is missing; null: kernels are not stored. */
  constructor(folder: string | null, warn: (message: string) => void = () => {}) {
    this.#warn = warn;
    this.#folder = folder === null || !this.#isOurs(folder) ? null : folder;
  }

  /** The folder of entries; null where nothing is kept. Only this user can write to it. */
  get folder(): string | null {
    return this.#folder;
  }

  /** The machine code of a kernel for a target; null when it must be compiled. */
  find(source: KernelText, target: KernelTarget): Uint8Array | null {
    if (this.#folder === null) return null;
    let content: Buffer;
    try {
      content = readOwnFile(join(this.#folder, entryName(source, target)));
    } catch {
      return null; // Missing, as on a first start; or not a file of this cache.
    }
    const cubin = content.subarray(digestBytes);
    const good = sha256(cubin).equals(content.subarray(0, digestBytes));
    return good && cubin.length > 0 ? cubin : null;
  }

  /**
   * Stores machine code. Concurrent readers see the whole file or none, also with several writers.
   */
  store(source: KernelText, target: KernelTarget, cubin: Uint8Array): void {
    if (this.#folder === null) return;
    const name = entryName(source, target);
    const part = join(this.#folder, `${name}.${process.pid}-${threadId}.part`);
    try {
      rmSync(part, { force: true });
      writeFileSync(part, Buffer.concat([sha256(cubin), cubin]), { mode: 0o600, flag: "wx" });
      renameSync(part, join(this.#folder, name));
      this.#prune(`${stemOf(source)}-sm_`);
    } catch (error) {
      rmSync(part, { force: true });
      this.#warnOnce(`Cannot keep compiled kernels in ${this.#folder}`, error);
    }
  }

  /** Removes machine code that a driver refused. */
  forget(source: KernelText, target: KernelTarget): void {
    if (this.#folder === null) return;
    rmSync(join(this.#folder, entryName(source, target)), { force: true });
  }

  /** Machine code runs with this user's rights on the GPU: only files of this user are loaded. */
  #isOurs(folder: string): boolean {
    try {
      mkdirSync(folder, { recursive: true, mode: userOnly });
      const foreign = foreignWriter(statSync(folder), process.getuid?.());
      if (foreign !== null) throw new Error(foreign);
      return true;
    } catch (error) {
      this.#warnOnce(`Cannot keep compiled kernels in ${folder}`, error);
      return false;
    }
  }

  /** Removes the oldest entries of one kernel. */
  #prune(prefix: string): void {
    const folder = this.#folder ?? "";
    const entries = readdirSync(folder)
      .filter((name) => name.startsWith(prefix) && name.endsWith(".cubin"))
      .map((name) => join(folder, name))
      .map((path) => ({ path, writtenMs: statSync(path).mtimeMs }))
      .sort((a, b) => b.writtenMs - a.writtenMs);
    for (const { path } of entries.slice(entriesMax)) rmSync(path, { force: true });
  }

  #warnOnce(what: string, error: unknown): void {
    if (this.#warned) return;
    this.#warned = true;
    const why = error instanceof Error ? error.message : String(error);
    this.#warn(`${what}: ${why}; kernels are compiled at every start`);
  }
}

/**
 * A regular file of this user that others cannot write. Throws for a link, a pipe or another user's
 * file.
 */
function readOwnFile(path: string): Buffer {
  const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
  const descriptor = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const status = fstatSync(descriptor);
    const foreign = foreignWriter(status, process.getuid?.());
    if (!status.isFile() || foreign !== null) throw new Error(foreign ?? "it is no regular file");
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** `norm-sm_90a-<hash>.cubin`. */
function entryName(source: KernelText, target: KernelTarget): string {
  const hash = createHash("sha256");
  const headers = Object.entries(source.headers).sort(([a], [b]) => (a < b ? -1 : 1));
  const { nvrtcVersion, driverVersion, options } = target;
  const parts = [source.path, source.text, headers, options, nvrtcVersion, driverVersion];
  hash.update(JSON.stringify(parts));
  const key = hash.digest("hex").slice(0, 32);
  return `${stemOf(source)}-${target.architecture}-${key}.cubin`;
}

function stemOf(source: KernelText): string {
  return basename(source.path, ".cu");
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}
