// Checksums of a release, and sending its tarballs to a registry.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SUMS = "SHA256SUMS";

function sha256(file) {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}

/** Writes SHA256SUMS of a folder's files, as `sha256sum --check` reads them. */
export function writeSums(folder, files) {
  const lines = files.map((file) => `${sha256(join(folder, file))}  ${file}\n`);
  writeFileSync(join(folder, SUMS), lines.join(""));
}

/** Throws where a file is missing, was changed, or is a tarball that no sum was made of. */
export function checkSums(folder) {
  const lines = readFileSync(join(folder, SUMS), "utf8").trimEnd().split("\n");
  const named = lines.map((line) => line.split("  "));
  for (const [sum, file] of named) {
    if (sha256(join(folder, file)) !== sum) {
      throw new Error(`${file} is not the one of ${SUMS}; make the release again`);
    }
  }
  const known = new Set(named.map(([, file]) => file));
  const foreign = tarballsOf(folder).find((file) => !known.has(file));
  if (foreign !== undefined) throw new Error(`${foreign} is not in ${SUMS}; remove it`);
}

const tarballsOf = (folder) => readdirSync(folder).filter((name) => name.endsWith(".tgz"));

/** Native packages first: perigee names them. */
export function inOrder(tarballs) {
  const rank = (name) => (/^perigee-native-/.test(name) ? 0 : /^perigee-\d/.test(name) ? 1 : 2);
  return [...tarballs].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/** Sends all tarballs of a release; nothing where one was changed since it was made. */
export function publishAll(folder, { dryRun, registry, say }) {
  checkSums(folder);
  for (const file of inOrder(tarballsOf(folder))) {
    say(`${dryRun ? "would publish" : "publishing"} ${file}`);
    const words = ["publish", join(folder, file), "--access", "public", "--ignore-scripts"];
    if (dryRun) words.push("--dry-run");
    if (registry !== "") words.push("--registry", registry);
    execFileSync("npm", words, { stdio: ["ignore", "inherit", "inherit"] });
  }
}
