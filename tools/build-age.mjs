/** Whether a build is of the source beside it: benchmarks run the build. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** A file of `source` that was changed after it was built, or that is not built; null: none. */
export function unbuiltFile(source, build) {
  const files = readdirSync(source, { recursive: true, encoding: "utf8" });
  const isNewer = (file) =>
    changedMs(join(source, file)) > changedMs(join(build, file.replace(/\.ts$/, ".js")));
  return files.find((file) => file.endsWith(".ts") && isNewer(file)) ?? null;
}

/** 0 for a file that is not there. */
function changedMs(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
