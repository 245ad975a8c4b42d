/** Files below roots, in a fixed order. Links are not followed, and special files not opened. */
import type { Dirent } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { messageOf } from "#base";
import { IgnoreRules } from "./ignore-rules.ts";
import type { Root } from "./roots.ts";

/** A file that may be read. */
export interface FoundFile {
  readonly type: "file";
  readonly id: string;
  readonly path: string;
}

/** What a walk found. */
export type Found =
  | FoundFile
  /** No file to read, and why: a link, a pipe. */
  | { readonly type: "skipped"; readonly id: string; readonly reason: string }
  /** A folder that could not be looked into: what is below it may still be there. */
  | { readonly type: "failed"; readonly id: string; readonly reason: string };

/** Folders within folders: deeper ones are not looked into. */
const DEPTH_MAX = 64;

/**
 * Everything below a root but what `.gitignore` names, `.git`, and names that begin with a dot
 * unless the root's pattern has such names. `onFolder` is called for each folder before its entries
 * are read; of a root that is a file with its folder and its name.
 */
export async function* walk(
  root: Root,
  onFolder: (path: string, only: string | null) => void = () => {},
): AsyncGenerator<Found> {
  const { path, id } = root;
  const found = await stat(path).catch((error: unknown) => messageOf(error));
  if (typeof found === "string") {
    yield { type: "failed", id, reason: found };
    return;
  }
  if (!found.isDirectory()) {
    onFolder(dirname(path), basename(path));
    if (found.isFile()) yield { type: "file", id, path };
    else yield { type: "skipped", id, reason: "is no regular file" };
    return;
  }
  const rules = await IgnoreRules.of(path);
  yield* walkFolder({ root, path, id, rules, depth: 0, onFolder });
}

interface Folder {
  readonly root: Root;
  readonly path: string;
  readonly id: string;
  readonly rules: IgnoreRules;
  readonly depth: number;
  readonly onFolder: (path: string, only: string | null) => void;
}

async function* walkFolder(folder: Folder): AsyncGenerator<Found> {
  const { path, id, depth } = folder;
  if (depth > DEPTH_MAX) {
    yield { type: "failed", id, reason: `is in more than ${DEPTH_MAX} folders below its root` };
    return;
  }
  folder.onFolder(path, null);
  let entries: Dirent[];
  try {
    entries = await readdir(path, { withFileTypes: true });
  } catch (error) {
    yield { type: "failed", id, reason: messageOf(error) };
    return;
  }
  entries.sort((one, other) => (one.name < other.name ? -1 : 1));
  for (const entry of entries) yield* walkEntry(folder, entry);
}

async function* walkEntry(folder: Folder, entry: Dirent): AsyncGenerator<Found> {
  const { root, rules } = folder;
  const { name } = entry;
  if (name === ".git" || (name.startsWith(".") && !root.hasHidden)) return;
  const path = join(folder.path, name);
  const id = folder.id === "" ? name : `${folder.id.replace(/\/$/, "")}/${name}`;
  if (rules.ignores(path, entry.isDirectory())) return;
  if (entry.isDirectory()) {
    const inner = await rules.within(path);
    yield* walkFolder({ ...folder, path, id, rules: inner, depth: folder.depth + 1 });
    return;
  }
  if (root.matches !== null && !root.matches(id)) return;
  if (entry.isFile()) yield { type: "file", id, path };
  else yield { type: "skipped", id, reason: kindOf(entry) };
}

function kindOf(entry: Dirent): string {
  if (entry.isSymbolicLink()) return "is a link, which is not followed";
  if (entry.isFIFO()) return "is a pipe";
  if (entry.isSocket()) return "is a socket";
  return "is a device";
}
