import { readFileSync } from "node:fs";

/** The version of this package; `unknown` where its manifest has none. */
export function ownVersion(): string {
  // Both src/server and dist/server are two folders below the package's root.
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const manifest: unknown = JSON.parse(text);
  const hasVersion = typeof manifest === "object" && manifest !== null && "version" in manifest;
  return hasVersion ? String(manifest.version) : "unknown";
}
