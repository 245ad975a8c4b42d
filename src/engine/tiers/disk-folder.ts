/** Opens a store's folder: locks it, scans it, and removes blocks that are not worth keeping. */
import { lstat, stat } from "node:fs/promises";
import { join } from "node:path";
import { foreignWriter, messageOf } from "#base";
import type { DiskFiles } from "./disk-files.ts";
import type { DiskStoreOptions } from "./disk-options.ts";
import { FILE_SUFFIX, pathOf, type Scan, type ScanOptions, scanFolder } from "./disk-scan.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import { forEachOf } from "./lanes.ts";
import { chooseSurvivors, type FoundFile } from "./survivors.ts";

/** A folder that this process holds until the lock is released. */
export interface OpenedFolder {
  readonly folder: string;
  readonly lock: FolderLock;
  readonly survivors: readonly FoundFile[];
}

/** A store's settings, and the files to use. */
export interface FolderOptions extends DiskStoreOptions {
  readonly files: DiskFiles;
}

const LOCK_NAME = "lock";
const REMOVALS_MAX = 8;
const FOLDER_NAME = /^[0-9a-f]{32}-[a-z0-9_]+$/;
const BYTES_PER_GB = 1e9;
const MS_PER_SECOND = 1000;

/** Reading the headers of a million blocks takes a minute; a notice helps. */
const NOTICE_MS = 5_000;
const OPENING_MS_MAX = 180_000;

/**
 * Null: the folder cannot be used, another process uses it, or it does not answer; `warn` received
 * the reason.
 */
export async function openFolder(options: FolderOptions): Promise<OpenedFolder | null> {
  const { dir, fingerprint, hashRule, timer, warn } = options;
  const folder = join(dir, `${fingerprint}-${hashRule}`);
  const opening = openNow(options, folder);
  const stopNotice = timer.after(NOTICE_MS, () => warn(`Disk cache: still opening ${folder}`));
  let stopLimit = () => {};
  let isLate = false;
  const limit = new Promise<null>((resolve) => {
    stopLimit = timer.after(OPENING_MS_MAX, () => {
      isLate = true;
      resolve(null);
    });
  });
  const opened = await Promise.race([opening, limit]);
  stopNotice();
  stopLimit();
  if (!isLate || opened !== null) return opened;
  warn(
    `Cannot use the disk cache: ${folder} must open within ${OPENING_MS_MAX / MS_PER_SECOND} ` +
      "seconds, it did not; it stays off, pass another folder",
  );
  // If it opens after all, other processes may lock it.
  void opening.then((late) => late?.lock.release());
  return null;
}

async function openNow(options: FolderOptions, folder: string): Promise<OpenedFolder | null> {
  const { files, warn } = options;
  let lock: FolderLock | null = null;
  try {
    await files.makeFolder(folder);
    await checkOwner(folder);
    await reportOpenParent(options);
    const locked = await lockFolder(join(folder, LOCK_NAME));
    if ("owner" in locked) {
      warn(
        `Cannot use the disk cache: ${folder} must not be in use, process ${locked.owner} ` +
          "uses it; it stays off, give each process a folder of its own",
      );
      return null;
    }
    lock = locked;
    const scan = await scanFolder({ files, folder, shape: options, warn } satisfies ScanOptions);
    const survivors = await prune(options, folder, scan);
    await reportOthers(options, folder);
    return { folder, lock, survivors };
  } catch (error) {
    await lock?.release();
    warn(
      `Cannot use the disk cache: ${folder} must be a folder that this user alone can read and ` +
        `write, ${messageOf(error)}; it stays off, pass another folder`,
    );
    return null;
  }
}

/** Refuses foreign folders: blocks contain prompts, and written blocks change model outputs. */
async function checkOwner(folder: string): Promise<void> {
  const status = await lstat(folder);
  if (!status.isDirectory()) throw new Error("it is a symbolic link or no folder");
  const foreign = foreignWriter(status, process.getuid?.());
  if (foreign !== null) throw new Error(foreign);
}

const OTHERS_WRITE = 0o002;
const STICKY = 0o1000;

/** Volumes of containers are often writable by all: this is a warning, not an error. */
async function reportOpenParent({ dir, warn }: FolderOptions): Promise<void> {
  const { mode } = await stat(dir);
  if (process.getuid === undefined || (mode & OTHERS_WRITE) === 0 || (mode & STICKY) !== 0) return;
  warn(
    `Disk cache: all users may write to ${dir}, so another user can rename or remove its ` +
      "contents; remove that permission: chmod o-w",
  );
}

/**
 * Removes blocks that no prompt can reach and blocks beyond the capacity; returns the others. With
 * files that cannot be read now, the ancestors of an orphan are unknown: orphans then stay.
 */
async function prune(
  { files, capacityBlocks, blockTokens, warn }: FolderOptions,
  folder: string,
  { found, unreadable }: Scan,
): Promise<readonly FoundFile[]> {
  const { kept, orphans, surplus } = chooseSurvivors(found, capacityBlocks, blockTokens);
  const doomed = unreadable > 0 ? surplus : [...orphans, ...surplus];
  if (doomed.length === 0) return kept;
  let left = 0;
  await forEachOf(doomed, REMOVALS_MAX, async ({ file }) => {
    await files.remove(join(folder, pathOf(file.key))).catch(() => {
      left++;
    });
  });
  const remain = left === 0 ? "" : `; ${left} cannot be removed and are ignored`;
  const lost = unreadable > 0 ? 0 : orphans.length;
  warn(
    `Disk cache: kept ${kept.length} blocks of an earlier run, dropped ${lost} whose prefix ` +
      `is missing and ${surplus.length} beyond its capacity${remain}`,
  );
  return kept;
}

/** Reports folders of other models and rules in one line: only the operator knows their use. */
async function reportOthers(options: FolderOptions, own: string): Promise<void> {
  const { dir, files, warn } = options;
  const others = (await files.list(dir))
    .filter((name) => FOLDER_NAME.test(name))
    .map((name) => join(dir, name))
    .filter((folder) => folder !== own);
  if (others.length === 0) return;
  let bytes = 0;
  for (const folder of others) bytes += await estimateBytes(files, folder);
  warn(
    `Disk cache: ${dir} holds ${others.length} folders of other models, settings or hash ` +
      `rules, about ${(bytes / BYTES_PER_GB).toFixed(1)} GB, which are not used; delete those ` +
      "that are no longer needed",
  );
}

/** Blocks of one store are files of nearly one size: one is measured, the others are counted. */
async function estimateBytes(files: DiskFiles, folder: string): Promise<number> {
  let count = 0;
  let sizeBytes = 0;
  try {
    for (const name of await files.list(folder)) {
      if (name.length !== 2) continue;
      const blocks = (await files.list(join(folder, name))).filter((file) =>
        file.endsWith(FILE_SUFFIX),
      );
      count += blocks.length;
      const [first] = blocks;
      if (sizeBytes > 0 || first === undefined) continue;
      const file = await files.open(join(folder, name, first));
      sizeBytes = file.bytes;
      await file.close();
    }
  } catch {
    return count * sizeBytes; // The size is only informative: the count so far suffices.
  }
  return count * sizeBytes;
}
