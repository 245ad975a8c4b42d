/**
 * Lets tests run the build instead of the source, as modules of Node itself. Those that vite loads
 * read an object's property at each use of an import, which loops over numbers feel most. Stack
 * traces name files of `dist` then.
 */
import { readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Plugin } from "vitest/config";

const source = resolve("src");
const build = resolve("dist");

/** Whether every file of the source was built after its last change. */
export function isBuildCurrent(): boolean {
  return readdirSync(source, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .every((file) => changedMs(join(build, builtName(file))) > changedMs(join(source, file)));
}

/** Files of the build, which Node loads. */
export const BUILT = /^(?!.*\/node_modules\/).*\/dist\/.*\.js$/;

/** A path to a file of the source leads to what was built of it. */
export function fromBuild(): Plugin {
  return {
    name: "from-build",
    enforce: "pre",
    async resolveId(id, importer, options) {
      if (!id.includes("src/")) return null;
      const found = await this.resolve(id, importer, { ...options, skipSelf: true });
      if (!found?.id.startsWith(`${source}/`)) return found;
      return join(build, builtName(found.id.slice(source.length)));
    },
  };
}

function builtName(file: string): string {
  return file.replace(/\.ts$/, ".js");
}

/** 0 for a file that is not there. */
function changedMs(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
