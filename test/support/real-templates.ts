/**
 * Chat templates of published models, from the git bundle in the npm package node-llama-cpp. They
 * are read where it is installed, by `test/peers/clients.sh`, and never kept here.
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";

/** One model's template. */
export interface RealTemplate {
  /** The file's name without its ending: the model's. */
  readonly name: string;
  readonly text: string;
}

const cache = resolve("node_modules/.cache/clients");
const bundle = resolve(cache, "node_modules/node-llama-cpp/llama/gitRelease.bundle");
const repository = resolve(cache, "templates.git");
const folder = "models/templates";

/** All of them; null: the package is not installed. */
export function chatTemplates(): readonly RealTemplate[] | null {
  if (!existsSync(repository)) {
    if (!existsSync(bundle)) return null;
    git("clone", "--quiet", "--bare", bundle, repository);
  }
  const files = git("--git-dir", repository, "ls-tree", "--name-only", "HEAD", `${folder}/`);
  return files
    .split("\n")
    .filter((file) => file.endsWith(".jinja"))
    .map((file) => ({
      name: file.slice(folder.length + 1, -".jinja".length),
      text: git("--git-dir", repository, "show", `HEAD:${file}`),
    }));
}

function git(...given: readonly string[]): string {
  return execFileSync("git", given, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}
