// node tools/tidy/main.mjs: keeps what a linter cannot see. Exit code 1 with a line per violation.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { RULES } from "./rules.mjs";

const TEXT = /\.(ts|mjs|js|json|md|cpp|h|cu|py|yml|yaml|sh)$|^\.ci\/run$/;
const BYTES_MAX = 1 << 20;

/** Tracked and new text files. Of generated data and large files the paths only. */
function readTree() {
  const listed = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], {
    encoding: "utf8",
  });
  const paths = listed.split("\n").filter((path) => TEXT.test(path) && existsSync(path));
  const isData = (path) =>
    /^(test\/fixtures|models|bench\/results)\//.test(path) || statSync(path).size > BYTES_MAX;
  return new Map(paths.map((path) => [path, isData(path) ? "" : readFileSync(path, "utf8")]));
}

const files = readTree();
const violations = RULES.flatMap((rule) => rule(files));
for (const { rule, path, line, message } of violations) {
  console.error(`${path}${line === undefined ? "" : `:${line}`}: ${message} [${rule}]`);
}
console.log(`tidy: ${files.size} files, ${RULES.length} rules, ${violations.length} violations`);
process.exit(violations.length === 0 ? 0 : 1);
