// Files that a script makes: written, or compared with what is there.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Files that have another text than they should; null for those that should not exist.
 *
 * @param {string} root
 * @param {ReadonlyMap<string, string>} documents
 * @param {readonly { path: string, ends: string }[]} folders folders whose files with such ends
 *   have no other source
 */
function* outdated(root, documents, folders) {
  for (const [path, text] of documents) {
    const file = join(root, path);
    const old = existsSync(file) ? readFileSync(file, "utf8") : null;
    if (old !== text) yield [path, text];
  }
  for (const { path, ends } of folders) {
    const files = existsSync(join(root, path)) ? readdirSync(join(root, path)) : [];
    for (const file of files) {
      const here = `${path}/${file}`;
      if (file.endsWith(ends) && !documents.has(here)) yield [here, null];
    }
  }
}

/**
 * Writes the documents, and removes what is in their folders beside them. With `check` nothing is
 * written: `tell` gets a line for each file that is out of date.
 *
 * @param {string} root
 * @param {{ documents: ReadonlyMap<string, string>, check: boolean, remedy: string,
 *   folders: readonly { path: string, ends: string }[], tell?: (line: string) => void }} options
 * @returns {number} the exit code
 */
export function settle(root, { documents, folders, check, remedy, tell = console.error }) {
  let stale = 0;
  for (const [path, text] of outdated(root, documents, folders)) {
    const file = join(root, path);
    if (check) {
      tell(`${path} is out of date: ${remedy}`);
      stale += 1;
    } else if (text === null) rmSync(file);
    else {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
  }
  return stale === 0 ? 0 : 1;
}
