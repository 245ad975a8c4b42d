// The tarballs of a release (tools/release.mjs) by the packages that they have, and sizes.
import { existsSync, lstatSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** Paths by name: `perigee`, `@perigee/ai-sdk`, `@perigee/native-linux-x64`. */
export function releaseFiles(folder) {
  const files = new Map();
  for (const file of readdirSync(folder)) {
    const [, own] = /^perigee(?:-([a-z][a-z0-9-]*?))?-\d[^-]*\.tgz$/.exec(file) ?? [null, null];
    if (own !== null) {
      files.set(own === undefined ? "perigee" : `@perigee/${own}`, join(folder, file));
    }
  }
  if (!files.has("perigee"))
    throw new Error(`${folder} has no perigee-*.tgz; make a release first`);
  return files;
}

/** The largest of them, in bytes. */
export function largestTarball(files) {
  return Math.max(...[...files.values()].map((path) => statSync(path).size));
}

/** Bytes of a folder's files; links are not followed. */
export function bytesOf(path) {
  const found = lstatSync(path);
  if (!found.isDirectory()) return found.size;
  return readdirSync(path).reduce((sum, name) => sum + bytesOf(join(path, name)), 0);
}

/** Packages that perigee runs without, and what they bring. */
const OPTIONAL = ["usearch", "zeromq", "cmake-ts", "node-addon-api"];

/** Bytes of optional packages in a node_modules; pnpm has each in a folder of its own. */
export function optionalBytes(modules) {
  const pnpm = join(modules, ".pnpm");
  const folders = existsSync(pnpm) ? [modules, pnpm] : [modules];
  return folders
    .flatMap((folder) => readdirSync(folder).map((name) => [folder, name]))
    .filter(([, name]) => OPTIONAL.some((own) => name === own || name.startsWith(`${own}@`)))
    .filter(([folder, name]) => !lstatSync(join(folder, name)).isSymbolicLink())
    .reduce((sum, [folder, name]) => sum + bytesOf(join(folder, name)), 0);
}
