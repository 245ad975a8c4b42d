/** What `ingest` was asked to read: files, folders and patterns, and which documents are theirs. */
import { lstatSync, realpathSync } from "node:fs";
import { isAbsolute, relative, resolve, sep } from "node:path";
import picomatch from "picomatch";
import { EngineError } from "#base";

/** One file, folder or pattern. */
export interface Root {
  /** As it was given. */
  readonly given: string;
  /** The file, the folder, or the folder where the pattern begins; absolute. */
  readonly path: string;
  /** Its document's name, or the start of those of its documents. */
  readonly id: string;
  /** Of a pattern: whether a name of a document is one of its; null of files and folders. */
  readonly matches: ((id: string) => boolean) | null;
  /** Whether names that begin with a dot are looked at. */
  readonly hasHidden: boolean;
}

/**
 * The roots of paths. A path that exists is what it says, even if it has stars. Throws
 * INVALID_ARGUMENT where there is nothing at a path.
 */
export function rootsOf(paths: readonly string[], base: string): Root[] {
  return paths.map((given) => rootOf(given, base));
}

/**
 * The name of a file's document: its path below the base folder, with `/`; of other files the
 * absolute path.
 */
export function documentName(path: string, base: string): string {
  const inner = relative(base, path);
  const isInside = inner !== ".." && !inner.startsWith(`..${sep}`) && !isAbsolute(inner);
  return (isInside ? inner : path).split(sep).join("/");
}

/** Whether a stored document is one that reading the root would give, if its file were there. */
export function isBelow(root: Root, documentId: string): boolean {
  const file = fileOf(documentId);
  if (root.matches !== null) return root.matches(documentId) || root.matches(file);
  if (documentId === root.id || file === root.id) return true;
  const isAddress = /^https?:\/\//.test(documentId);
  if (root.id === "") return !isAddress && !isAbsolute(documentId);
  return documentId.startsWith(root.id.endsWith("/") ? root.id : `${root.id}/`);
}

/** The file of a row: `rows.csv#17` is one of `rows.csv`. */
function fileOf(documentId: string): string {
  const end = documentId.lastIndexOf("#");
  return end === -1 ? documentId : documentId.slice(0, end);
}

function rootOf(given: string, base: string): Root {
  const path = resolve(base, given);
  if (exists(path)) {
    // A root may be a link itself; those below it are not followed.
    const id = documentName(path, base);
    return { given, path: realpathSync(path), id, matches: null, hasHidden: false };
  }
  const { isGlob, base: start, glob } = picomatch.scan(given.split(sep).join("/"));
  const folder = resolve(base, start);
  if (!isGlob || !exists(folder)) {
    const message = `Cannot ingest ${JSON.stringify(given)}: it must exist below ${base}`;
    throw new EngineError("INVALID_ARGUMENT", message, { param: "paths" });
  }
  const id = documentName(folder, base);
  const isMatch = picomatch(glob, { nonegate: true });
  const prefix = id === "" || id.endsWith("/") ? id : `${id}/`;
  const matches = (name: string) => name.startsWith(prefix) && isMatch(name.slice(prefix.length));
  const hasHidden = /(^|\/)\.[^./]/.test(glob);
  return { given, path: realpathSync(folder), id, matches, hasHidden };
}

function exists(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch {
    return false; // Whatever keeps it from being seen, there is nothing to read.
  }
}
