/** Finds the blocks that earlier runs left in a store's folder: reads headers, not contents. */
import { join } from "node:path";
import { messageOf } from "#base";
import {
  decodeHeader,
  type FileShape,
  HEADER_BYTES_MIN,
  headerBytesOf,
  type ReadHeader,
} from "./block-file.ts";
import { type DiskFile, type DiskFiles, judgeFailure } from "./disk-files.ts";
import { forEachOf } from "./lanes.ts";
import type { FoundFile } from "./survivors.ts";

/** Most headers that are read at a time; the system runs four of them at once anyway. */
const SCANS_MAX = 16;
/** Enough for the header of a 128-token block; longer ones take a second read. */
const FIRST_READ_BYTES = 1024;
/** Damaged files that are reported by name; of further ones only the number is reported. */
const TOLD_MAX = 5;

/** Ends the name of a whole block's file. */
export const FILE_SUFFIX = ".kv";
/** Ends the name of a file that is being written. */
export const TEMPORARY_SUFFIX = ".tmp";
const FOLDER_DIGITS = 2;
const FOLDER_NAME = /^[0-9a-f]{2}$/;

/** Where in a store's folder the block of a key is. */
export function pathOf(key: string): string {
  return join(key.slice(0, FOLDER_DIGITS), `${key}${FILE_SUFFIX}`);
}

/** Options of a scan. */
export interface ScanOptions {
  readonly files: DiskFiles;
  readonly folder: string;
  readonly shape: FileShape;
  readonly warn: (message: string) => void;
}

/** Results of a scan. */
export interface Scan {
  /** All blocks that were read, in no order. */
  readonly found: readonly FoundFile[];
  /** Files that could not be read. They stay, and may be parents of other blocks. */
  readonly unreadable: number;
}

/**
 * All blocks in a store's folder. Files that are damaged, and those that a crash left half-written,
 * are removed; files of other kinds stay. Rejects where a folder cannot be listed.
 */
export async function scanFolder(options: ScanOptions): Promise<Scan> {
  const { files, warn } = options;
  const found: FoundFile[] = [];
  let damaged = 0;
  const unreadable: string[] = [];
  await forEachOf(await blockPaths(options), SCANS_MAX, async (path) => {
    const result = await readFound(options, path);
    if ("file" in result) found.push(result);
    else if (result.isPassing) unreadable.push(`${path}: ${result.why}`);
    else {
      const isTold = damaged++ < TOLD_MAX;
      const message = await discardFile(files, path, result.why);
      if (isTold) warn(message);
    }
  });
  if (damaged > TOLD_MAX) {
    warn(`Removed ${damaged - TOLD_MAX} more files of the disk cache that cannot be used`);
  }
  if (unreadable.length > 0) {
    warn(
      `Ignored ${unreadable.length} files of the disk cache that cannot be read; they stay for ` +
        `the next start: ${unreadable[0]}`,
    );
  }
  return { found, unreadable: unreadable.length };
}

/** Removes a file that cannot be used, if the system permits; returns a line to report it. */
export async function discardFile(files: DiskFiles, path: string, why: string): Promise<string> {
  try {
    await files.remove(path);
    return `Removed ${path} from the disk cache: ${why}`;
  } catch (error) {
    return `Ignored ${path} in the disk cache: ${why}; it cannot be removed: ${messageOf(error)}`;
  }
}

/** Files that may be blocks. Removes temporary files, which an ended process left half-written. */
async function blockPaths({ files, folder, warn }: ScanOptions): Promise<string[]> {
  const paths: string[] = [];
  const names = (await files.list(folder)).filter((name) => FOLDER_NAME.test(name));
  await forEachOf(names, SCANS_MAX, async (name) => {
    if (!(await files.isFolder(join(folder, name)))) {
      // A link leads to files that are not ours to remove.
      throw new Error(`${name} in it is no folder`);
    }
    for (const file of await files.list(join(folder, name))) {
      const path = join(folder, name, file);
      if (file.endsWith(FILE_SUFFIX)) paths.push(path);
      else if (file.endsWith(TEMPORARY_SUFFIX)) await removeQuietly(files, path, warn);
    }
  });
  return paths;
}

async function removeQuietly(
  files: DiskFiles,
  path: string,
  warn: (message: string) => void,
): Promise<void> {
  try {
    await files.remove(path);
  } catch (error) {
    warn(`Ignored ${path} in the disk cache: it cannot be removed: ${messageOf(error)}`);
  }
}

/** Why a file cannot be used: permanently, or only now (`isPassing`). */
interface Refusal {
  readonly why: string;
  readonly isPassing: boolean;
}

/** The block that a file holds. */
async function readFound(
  { files, shape }: ScanOptions,
  path: string,
): Promise<FoundFile | Refusal> {
  let file: DiskFile;
  try {
    file = await files.open(path);
  } catch (error) {
    return refusalOf(error);
  }
  try {
    const header = await readHeader(file, shape);
    if (typeof header === "string") return { why: header, isPassing: false };
    if (!path.endsWith(pathOf(header.file.key))) {
      return { why: "it has the name of another block", isPassing: false };
    }
    return { file: header.file, writtenMs: file.writtenMs };
  } catch (error) {
    return refusalOf(error);
  } finally {
    await file.close();
  }
}

function refusalOf(error: unknown): Refusal {
  return { why: messageOf(error), isPassing: judgeFailure(error) === "unknown" };
}

async function readHeader(file: DiskFile, shape: FileShape): Promise<ReadHeader | string> {
  if (file.bytes < HEADER_BYTES_MIN) return `it has only ${file.bytes} bytes`;
  const first = Buffer.alloc(Math.min(FIRST_READ_BYTES, file.bytes));
  const headerBytes = (await file.read([first])) ? headerBytesOf(first) : null;
  if (headerBytes === null || headerBytes > file.bytes) return "it has no whole header";
  if (headerBytes <= first.length) {
    return decodeHeader(first.subarray(0, headerBytes), file.bytes, shape);
  }
  const whole = Buffer.alloc(headerBytes);
  if (!(await file.read([whole]))) return "it has no whole header";
  return decodeHeader(whole, file.bytes, shape);
}
