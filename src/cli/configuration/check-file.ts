/** All of a file of settings checked, for every command that it has settings of. */
import type { Command } from "commander";
import { configure } from "./apply.ts";
import { nameOf, withDescendants } from "./command-path.ts";
import { checkSections } from "./file-settings.ts";
import { readYamlFile } from "./yaml-tree.ts";

/**
 * A line for each command with settings, e.g. `ok perigee serve: 3 settings`. `root` has all
 * commands with their flags, and is not used for anything else after. Throws what `configure` does.
 */
export async function checkFile(file: string, root: Command): Promise<readonly string[]> {
  checkSections({ file, tree: readYamlFile(file) }, root);
  const lines: string[] = [];
  for (const command of withDescendants(root)) {
    if (command.commands.length > 0) continue;
    const sources = await configure(command, { file, environment: {}, all: async () => root });
    const count = sources.size;
    if (count > 0) lines.push(`ok ${nameOf(command)}: ${count} setting${count === 1 ? "" : "s"}`);
  }
  return lines.length > 0 ? lines : [`ok ${file}: no settings`];
}
