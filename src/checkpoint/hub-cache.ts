/**
 * The cache folder that Hugging Face's tools share on a machine:
 *
 *   models--ORG--NAME/refs/main             the commit that a branch or tag pointed to
 *   models--ORG--NAME/blobs/HASH            a file's content
 *   models--ORG--NAME/snapshots/COMMIT/     links to blobs, under the files' names
 */
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { EngineError } from "#base";
import { bundledPath } from "./bundled-models.ts";
import { longName, shortNameHint } from "./short-names.ts";

const COMMIT = /^[0-9a-f]{40}$/;
/** `NAME` or `ORG/NAME`, as the hub allows them; never a path. */
const MODEL_NAME = /^[A-Za-z0-9][\w.-]*(\/[A-Za-z0-9][\w.-]*)?$/;
/** A branch or tag; it may contain slashes, but must not lead out of `refs`. */
const REVISION = /^[\w][\w.-]*(\/[\w][\w.-]*)*$/;
const DEFAULT_REVISION = "main";
const FOLDER_PREFIX = "models--";

/** Location of downloaded models. */
export interface CacheOptions {
  /** Branch, tag or commit; `main` by default. */
  readonly revision?: string;
  /** By default HF_HUB_CACHE, or the default of Hugging Face's client in this environment. */
  readonly cacheDir?: string;
}

/** A downloaded model. */
export interface CachedModel {
  /** ORG/NAME. */
  readonly name: string;
  /** The snapshot's directory, or its GGUF file if there is no other model. */
  readonly path: string;
  readonly revision: string;
  readonly sizeBytes: number;
}

/** One repository's folder in the cache. */
export interface CachedRepository {
  readonly directory: string;
  readonly revision: string;
}

/** Rejects with INVALID_ARGUMENT for names that the hub cannot have. */
export async function cachedRepository(
  name: string,
  options: CacheOptions,
): Promise<CachedRepository> {
  const revision = options.revision ?? DEFAULT_REVISION;
  if (!MODEL_NAME.test(name)) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot look up model: name must be ORG/NAME, current value is ${name}`,
      { param: "model" },
    );
  }
  if (!REVISION.test(revision)) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot look up ${name}: revision must be a branch, tag or commit, current value is ` +
        revision,
      { param: "revision" },
    );
  }
  const root = options.cacheDir ?? (await defaultCacheDir());
  return { directory: join(root, FOLDER_PREFIX + name.replace("/", "--")), revision };
}

/** The client library is imported here, since a model in a folder needs nothing of it. */
async function defaultCacheDir(): Promise<string> {
  const { getHFHubCachePath } = await import("@huggingface/hub");
  return getHFHubCachePath();
}

/** The directory of a commit's files. */
export function snapshotDirectory(repository: CachedRepository, commit: string): string {
  return join(repository.directory, "snapshots", commit);
}

/** Records the commit of a branch or tag. Written last, so that a partial model is not found. */
export async function writeReference(repository: CachedRepository, commit: string): Promise<void> {
  if (COMMIT.test(repository.revision)) return;
  const path = join(repository.directory, "refs", repository.revision);
  await mkdir(dirname(path), { recursive: true });
  // The rename replaces a link of that name instead of writing through it.
  const part = `${path}.${process.pid}.part`;
  await rm(part, { force: true });
  await writeFile(part, commit, { flag: "wx" });
  await rename(part, path);
}

/**
 * The path to open for a model that the user named: a directory or file unchanged, a bundled model,
 * or the snapshot of a downloaded hub model, which may have a short name. Throws MODEL_NOT_FOUND;
 * never downloads.
 */
export async function resolveModel(model: string, options: CacheOptions = {}): Promise<string> {
  if (await exists(model)) return resolve(model);
  const name = longName(model) ?? model;
  const path = MODEL_NAME.test(name) ? await findSnapshot(name, options) : null;
  // A model that was linked into the cache by the name of a bundled one is meant first.
  const found = path ?? bundledPath(model);
  if (found !== null) return found;
  const hint = shortNameHint(model);
  const isRepository = MODEL_NAME.test(name) && name.includes("/");
  const remedy = isRepository
    ? `download it: npx perigee models pull ${name}`
    : (hint ?? "check the path, or download a model: npx perigee models pull ORG/NAME");
  throw new EngineError(
    "MODEL_NOT_FOUND",
    `Cannot find model: it must be a directory, a file or a downloaded model, current value is ` +
      `${model}; ${remedy}`,
    { param: "model" },
  );
}

/**
 * The repository of the hub that a text names and that is not on this machine: to be downloaded;
 * null: it names a file or folder, or a model that is here, or nothing that the hub can have.
 */
export async function missingRepository(
  model: string,
  options: CacheOptions = {},
): Promise<string | null> {
  if (await exists(model)) return null;
  const name = longName(model) ?? model;
  // NAME alone, or one in a folder that is here, is a mistyped path: the hub is not asked for it.
  if (!MODEL_NAME.test(name) || !name.includes("/")) return null;
  if (name === model && (await exists(dirname(model)))) return null;
  return (await findSnapshot(name, options)) === null ? name : null;
}

async function findSnapshot(name: string, options: CacheOptions): Promise<string | null> {
  const repository = await cachedRepository(name, options);
  const commit = await commitOf(repository);
  if (commit === null) return null;
  const directory = snapshotDirectory(repository, commit);
  return (await exists(directory)) ? directory : null;
}

async function commitOf({ directory, revision }: CachedRepository): Promise<string | null> {
  if (COMMIT.test(revision)) return revision;
  const path = join(directory, "refs", revision);
  if (!(await exists(path))) return null;
  const commit = (await readFile(path, "utf8")).trim();
  return COMMIT.test(commit) ? commit : null;
}

/** All models in the cache that can be loaded, by name. An absent cache has none. */
export async function listCachedModels(cacheDir?: string): Promise<readonly CachedModel[]> {
  const root = cacheDir ?? (await defaultCacheDir());
  const folders = (await exists(root)) ? await readdir(root) : [];
  const models: CachedModel[] = [];
  for (const folder of folders.sort()) {
    if (!folder.startsWith(FOLDER_PREFIX)) continue;
    const name = folder.slice(FOLDER_PREFIX.length).replace("--", "/");
    const snapshots = join(root, folder, "snapshots");
    const commits = (await exists(snapshots)) ? await readdir(snapshots) : [];
    for (const revision of commits.sort()) {
      const model = await cachedModel(join(snapshots, revision), { name, revision });
      if (model !== null) models.push(model);
    }
  }
  return models;
}

async function cachedModel(
  directory: string,
  identity: { readonly name: string; readonly revision: string },
): Promise<CachedModel | null> {
  const names = await readdir(directory);
  const weights = names.filter((name) => /\.(safetensors|gguf)$/.test(name));
  if (weights.length === 0) return null;
  let sizeBytes = 0;
  for (const name of names) sizeBytes += (await stat(join(directory, name))).size;
  const [only = ""] = weights;
  const isFile = weights.length === 1 && only.endsWith(".gguf");
  return { ...identity, path: isFile ? join(directory, basename(only)) : directory, sizeBytes };
}

/** Whether a path leads to an existing file or folder. */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch {
    return false; // Absent or without permission: either way there is no model.
  }
}
