import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of package.json, relative to dist/cli or src/cli. */
export const packageRoot = fileURLToPath(new URL("../..", import.meta.url));

/** The model included in the package. */
export const bundledModel = join(packageRoot, "models", "pocket");

export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8"));
  const version = (manifest as { version?: unknown }).version; // our own file
  return typeof version === "string" ? version : "unknown";
}
