// What is made of TypeScript: the program and its declarations, the AI SDK's provider, the page.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { unbuiltFile } from "./build-age.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
/** Not in `dist`, all of which is published. */
const stampFile = join(root, "node_modules", ".cache", "perigee-typescript.stamp");

const STEPS = [
  [tsc, "-p", "tsconfig.build.json"],
  ["tools/declaration-texts.mjs"],
  ["tools/spread-literals.mjs"],
  ["tools/join-modules.mjs"],
  [tsc, "-p", "packages/ai-sdk"],
  ["tools/build-dashboard.mjs"],
];
const SCRIPTS = STEPS.map(([script]) => script).filter((script) => script !== tsc);
/** What is built of these. `package-lock.json` says which compilers. */
const SOURCES = [
  ...["src", "packages/ai-sdk/src", "packages/ai-sdk/tsconfig.json", "dashboard"],
  ...["tsconfig.json", "tsconfig.build.json", "package-lock.json", "tools/typescript-build.mjs"],
  "tools/joined-packages.mjs",
  ...SCRIPTS,
];
const RESULTS = ["dist/cli/joined/main.js", "dist/dashboard/index.html", "packages/ai-sdk/dist"];

function filesOf(path) {
  if (!statSync(path).isDirectory()) return [path];
  const found = readdirSync(path, { recursive: true, encoding: "utf8" });
  return found.map((file) => join(path, file)).filter((file) => statSync(file).isFile());
}

function stamp() {
  const sum = createHash("sha256").update(process.version);
  for (const file of SOURCES.flatMap((source) => filesOf(join(root, source))).sort()) {
    sum.update(`\0${file}\0`).update(readFileSync(file));
  }
  return sum.digest("hex");
}

function isBuilt(wanted) {
  const isThere = [stampFile, ...RESULTS.map((file) => join(root, file))].every(existsSync);
  if (!isThere || readFileSync(stampFile, "utf8") !== wanted) return false;
  // Tests and benchmarks take files that were written after the build for others.
  return unbuiltFile(join(root, "src"), join(root, "dist")) === null;
}

/** Whether it can be built here: a package has no source, an install for use no compiler. */
export function canBuildTypeScript() {
  return existsSync(join(root, "src")) && existsSync(tsc);
}

/**
 * Builds it; `ifOld`: unless it is of this source already. Ends the process with the exit code of a
 * step that fails.
 */
export function buildTypeScript({ ifOld = false } = {}) {
  const wanted = stamp();
  if (ifOld && isBuilt(wanted)) return;
  for (const words of STEPS) {
    const { status } = spawnSync(process.execPath, words, { cwd: root, stdio: "inherit" });
    if (status !== 0) process.exit(status ?? 1);
  }
  mkdirSync(dirname(stampFile), { recursive: true });
  writeFileSync(stampFile, wanted);
}
