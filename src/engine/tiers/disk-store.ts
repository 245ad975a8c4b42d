/**
 * Blocks as files, which outlive the process:
 *
 *   DIR/FINGERPRINT-RULE/lock                the process that uses the folder
 *   DIR/FINGERPRINT-RULE/ab/abcdef….kv       one block: block-file.ts
 *
 * A file is written under another name and renamed when it is whole, so a process that is killed
 * leaves whole files and temporary ones. Nothing is synced to the disk: after a power cut a
 * file may be empty or torn, which its checksums detect. That costs time, and no result is wrong.
 */

import { join } from "node:path";
import { assert, LastingTrouble, messageOf } from "#base";
import type { BlockFile } from "#kvcache";
import { encodeHeader, isKey, payloadSum, verifyBlock } from "./block-file.ts";
import { type DiskFiles, judgeFailure, systemFiles } from "./disk-files.ts";
import { openFolder } from "./disk-folder.ts";
import type { DiskStoreOptions } from "./disk-options.ts";
import { discardFile, pathOf, TEMPORARY_SUFFIX } from "./disk-scan.ts";
import type { FolderLock } from "./folder-lock.ts";
import { KeyedOrder, Lanes } from "./lanes.ts";
import { PacedWarnings } from "./paced-warnings.ts";
import type { FoundFile } from "./survivors.ts";
import { Traffic, type TrafficStats } from "./traffic.ts";

/** A store that is ready, and its blocks of earlier runs. */
export interface OpenedStore {
  readonly store: DiskStore;
  /** Parents before their children. Blocks that the bookkeeping does not take must be removed. */
  readonly survivors: readonly FoundFile[];
}

/** Statistics since a store was opened. */
export interface DiskStoreStats {
  readonly reads: TrafficStats;
  readonly writes: TrafficStats;
  /** Writes that were not tried because the disk had refused others just before. */
  readonly skippedWrites: number;
  readonly removals: number;
  /** Files that were found damaged when they were read. */
  readonly damaged: number;
}

// The system runs four file operations at a time. Sequences wait for reads, not for writes.
const READS_MAX = 4;
const WRITES_MAX = 2;
/** After a failed write, this many are skipped; after each further one twice as many. */
const SKIPS_FIRST = 16;
const SKIPS_MAX = 4096;
/** How long no write may have failed before it is told that the disk can be written again. */
const QUIET_MS = 30_000;

/**
 * How a read ended. `read`: the block was read. `gone`: the file does not contain it, or does not
 * exist. `unreadable`: the file could not be read, and stays as it is.
 */
export type ReadOutcome = "read" | "gone" | "unreadable";

/** Why a block could not be read. */
type ReadProblem = { readonly judged: "missing" | "wrong" | "unknown"; readonly why: string };

/**
 * The disk level's bytes; `KvCache` records which block is where. No method rejects: a failure is a
 * return value, and the reason goes to `warn`. Calls with one key take effect in order.
 */
export class DiskStore {
  readonly #options: DiskStoreOptions;
  readonly #files: DiskFiles;
  readonly #folder: string;
  readonly #lock: FolderLock;
  readonly #order = new KeyedOrder();
  readonly #readLanes = new Lanes(READS_MAX);
  readonly #writeLanes = new Lanes(WRITES_MAX);
  readonly #reads: Traffic;
  readonly #writes: Traffic;
  readonly #warnings: PacedWarnings;
  #temporaries = 0;
  #removals = 0;
  #damaged = 0;
  #skippedWrites = 0;
  /** Writes to skip before one is tried again, and how many were skipped last time. */
  #skipsLeft = 0;
  #skipsNext = 0;
  /** Files come and go on a disk that is full: some writes succeed between those that fail. */
  readonly #trouble: LastingTrouble;
  #cancelled = false;

  private constructor(
    options: DiskStoreOptions,
    opened: { readonly folder: string; readonly lock: FolderLock },
  ) {
    this.#options = options;
    this.#files = options.files ?? systemFiles;
    this.#folder = opened.folder;
    this.#lock = opened.lock;
    this.#warnings = new PacedWarnings(options.clock, options.warn);
    this.#trouble = new LastingTrouble(options.clock, QUIET_MS);
    this.#reads = new Traffic(options.clock, options.onRead);
    this.#writes = new Traffic(options.clock);
  }

  /**
   * Opens the folder of this model and hash rule, removes files that cannot be used and returns the
   * others. Null: the folder cannot be used, or another process uses it; `warn` received the
   * reason.
   */
  static async open(options: DiskStoreOptions): Promise<OpenedStore | null> {
    assert(options.capacityBlocks > 0, "Cannot keep less than one block on disk");
    assert(options.bytesPerBlock < 2 ** 32, "Cannot store a block of 4 GiB or more in a file");
    const opened = await openFolder({ ...options, files: options.files ?? systemFiles });
    if (opened === null) return null;
    return { store: new DiskStore(options, opened), survivors: opened.survivors };
  }

  stats(): DiskStoreStats {
    return {
      reads: this.#reads.stats(),
      writes: this.#writes.stats(),
      skippedWrites: this.#skippedWrites,
      removals: this.#removals,
      damaged: this.#damaged,
    };
  }

  /**
   * Stores a block; `payload` [bytesPerBlock] must not change until this settles. False: it is not
   * stored. After a failure, writes are skipped for a while, and then tried again.
   */
  write(file: BlockFile, payload: Uint8Array): Promise<boolean> {
    this.#check(file, payload);
    return this.#order.run(file.key, () =>
      this.#writeLanes.run(async () => {
        if (this.#cancelled) return false;
        if (this.#skipsLeft > 0) {
          this.#skipsLeft--;
          this.#skippedWrites++;
          return false;
        }
        return this.#writes.measure(payload.length, () => this.#write(file, payload));
      }),
    );
  }

  /**
   * Reads a block into `into` [bytesPerBlock]. Unless the outcome is `read`, the contents of `into`
   * are undefined.
   */
  read(file: BlockFile, into: Uint8Array): Promise<ReadOutcome> {
    this.#check(file, into);
    return this.#order.run(file.key, () =>
      this.#readLanes.run(async () => {
        let outcome: ReadOutcome = "unreadable";
        if (this.#cancelled) return outcome;
        await this.#reads.measure(into.length, async () => {
          outcome = await this.#read(file, into);
          return outcome === "read";
        });
        return outcome;
      }),
    );
  }

  /** Removes a block, whether it exists or not. False: the file cannot be removed. */
  remove(key: string): Promise<boolean> {
    assert(isKey(key), "Cannot use a text as a key that is not hexadecimal");
    // Also after `cancel`: blocks that the bookkeeping dropped must not return.
    return this.#order.run(key, () => this.#writeLanes.run(() => this.#remove(key)));
  }

  /** Drops all operations that have not begun yet, except removals. */
  cancel(): void {
    this.#cancelled = true;
  }

  /** Waits for operations under way, then releases the folder. No calls may follow. */
  async close(): Promise<void> {
    await this.#order.idle();
    this.#warnings.flush();
    await this.#lock.release();
  }

  #check(file: BlockFile, payload: Uint8Array): void {
    const { bytesPerBlock, blockTokens } = this.#options;
    const count = file.tokens.length;
    assert(payload.length === bytesPerBlock, "Cannot store a part of a block");
    assert(count >= 1 && count <= blockTokens, `Cannot store a block of ${count} tokens`);
    assert(isKey(file.key), "Cannot use a text as a key that is not hexadecimal");
  }

  async #write(file: BlockFile, payload: Uint8Array): Promise<boolean> {
    const header = encodeHeader(file, this.#options, payloadSum(payload));
    if (header === null) return false;
    const path = join(this.#folder, pathOf(file.key));
    const temporary = `${path}.${this.#temporaries++}${TEMPORARY_SUFFIX}`;
    try {
      await this.#create(temporary, [header, payload]);
      await this.#files.rename(temporary, path);
      this.#resumeWrites();
      return true;
    } catch (error) {
      this.#pauseWrites(error);
      // A file that cannot be removed now is removed when the folder is opened again.
      await this.#files.remove(temporary).catch(() => {});
      return false;
    }
  }

  /** Makes folders that are missing: at first, and after the cache was emptied from outside. */
  async #create(path: string, parts: readonly Uint8Array[]): Promise<void> {
    try {
      await this.#files.create(path, parts);
    } catch (error) {
      if (judgeFailure(error) !== "missing") throw error;
      await this.#files.makeFolder(join(path, ".."));
      await this.#files.create(path, parts);
    }
  }

  #warn(kind: string, message: string): void {
    this.#warnings.say(kind, message);
  }

  #pauseWrites(error: unknown): void {
    if (this.#trouble.failed()) {
      this.#warn(
        "full",
        `Cannot write to the disk cache: ${this.#folder} must accept new files, ` +
          `${messageOf(error)}; blocks are still read from it, and writing is tried again later`,
      );
    }
    this.#skipsNext = Math.min(SKIPS_MAX, Math.max(SKIPS_FIRST, this.#skipsNext * 2));
    this.#skipsLeft = this.#skipsNext;
  }

  #resumeWrites(): void {
    this.#skipsNext = 0;
    this.#skipsLeft = 0;
    if (this.#trouble.succeeded()) {
      this.#warn("writable", `The disk cache can be written again: ${this.#folder}`);
    }
  }

  async #read(file: BlockFile, into: Uint8Array): Promise<ReadOutcome> {
    const path = join(this.#folder, pathOf(file.key));
    const problem = await this.#readBlock(path, file, into);
    if (problem === null) return "read";
    const { judged, why } = problem;
    if (judged === "unknown") {
      this.#warn("unreadable", `Cannot read ${path} in the disk cache: ${why}; the file stays`);
      return "unreadable";
    }
    if (judged === "missing") {
      this.#warn("lost", `Lost ${path} from the disk cache: another program removed it`);
      return "gone";
    }
    this.#damaged++;
    this.#warn("damaged", await discardFile(this.#files, path, why));
    return "gone";
  }

  /** Reads the block into `into`. Returns what is wrong with the file; null: nothing. */
  async #readBlock(path: string, file: BlockFile, into: Uint8Array): Promise<ReadProblem | null> {
    // Written and read headers differ in sums and priority only, so this one has the same length.
    const header = encodeHeader(file, this.#options, 0);
    if (header === null) return wrong("no file holds a block of so long a scope");
    try {
      const handle = await this.#files.open(path);
      try {
        const wanted = header.length + into.length;
        if (handle.bytes !== wanted) return wrong(`it has ${handle.bytes} bytes, wanted ${wanted}`);
        if (!(await handle.read([header, into]))) return wrong("it ended early");
      } finally {
        await handle.close();
      }
    } catch (error) {
      return { judged: judgeFailure(error), why: messageOf(error) };
    }
    const verdict = verifyBlock({ header, payload: into }, file, this.#options);
    return verdict === true ? null : wrong(verdict);
  }

  async #remove(key: string): Promise<boolean> {
    const path = join(this.#folder, pathOf(key));
    try {
      await this.#files.remove(path);
      this.#removals++;
      return true;
    } catch (error) {
      this.#warn("kept", `Cannot remove ${path} from the disk cache: ${messageOf(error)}`);
      return false;
    }
  }
}

function wrong(why: string): ReadProblem {
  return { judged: "wrong", why };
}
