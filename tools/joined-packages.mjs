// Packages of joined files, and their licences, which are given on with them.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const FOLDER = "/node_modules/";

/** The package that an import of `path` is of. */
export function packageOf(path) {
  const parts = path.split("/");
  return parts.slice(0, path.startsWith("@") ? 2 : 1).join("/");
}

/** The folder of the package that a file is of; null: it is of none. */
function folderOf(file) {
  const path = file.replaceAll("\\", "/");
  const end = path.lastIndexOf(FOLDER);
  if (end < 0) return null;
  const base = end + FOLDER.length;
  return path.slice(0, base) + packageOf(path.slice(base));
}

/** The licences of all packages that `files` are of. Throws where one has no file of it. */
export function licencesOf(files) {
  const folders = [...new Set(files.map(folderOf))].filter((folder) => folder !== null).sort();
  const texts = folders.map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[cs]e(\.|$)/i.test(each));
    if (file === undefined) throw new Error(`Cannot join ${name}: it has no file of its licence`);
    return `${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}
