/** A folder of the user's own under a name in the hub's cache, where other tools look names up. */
import { createHash } from "node:crypto";
import { mkdir, readdir, rm, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { EngineError } from "#base";
import { cachedRepository, exists, snapshotDirectory, writeReference } from "./hub-cache.ts";

/** What is linked, and where. */
export interface LinkOptions {
  /** NAME or ORG/NAME, as a server calls the model. */
  readonly name: string;
  /** A model's folder in Hugging Face's layout. */
  readonly folder: string;
  /** By default the cache of Hugging Face's client in this environment. */
  readonly cacheDir?: string;
}

/**
 * Makes a snapshot of links to the folder's files, and returns its path. Links of an earlier call
 * are replaced. Throws INVALID_ARGUMENT for a name that no model can have and one that a downloaded
 * model has, MODEL_NOT_FOUND for a folder without a model.
 */
export async function linkModel({ name, folder, ...where }: LinkOptions): Promise<string> {
  const repository = await cachedRepository(name, where);
  const path = resolve(folder);
  const names = await modelFiles(path);
  // The hub names commits by 40 hexadecimal digits; this one is the folder's.
  const commit = createHash("sha1").update(`perigee link ${path}`).digest("hex");
  // What is downloaded has blobs, whole or in part; a link has none.
  if (await exists(join(repository.directory, "blobs"))) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot link ${name}: the cache must not have a downloaded model of that name, it has one ` +
        `in ${repository.directory}; choose another name, or another --cache-dir`,
      { param: "name" },
    );
  }
  const snapshots = join(repository.directory, "snapshots");
  await rm(snapshots, { recursive: true, force: true });
  const snapshot = snapshotDirectory(repository, commit);
  await mkdir(snapshot, { recursive: true });
  for (const file of names) await symlink(join(path, file), join(snapshot, file));
  await writeReference(repository, commit);
  return snapshot;
}

async function modelFiles(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
  const names = entries.filter((entry) => !entry.isDirectory()).map(({ name }) => name);
  if (names.includes("config.json")) return names;
  throw new EngineError(
    "MODEL_NOT_FOUND",
    `Cannot link model: it must be a folder with config.json, current value is ${path}`,
    { param: "folder" },
  );
}
