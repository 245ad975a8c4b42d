/** What a file of settings says for one command: keys above sections, then its sections' own. */

import type { Command } from "commander";
import { nearestName } from "#base";
import { keysOf, nameOf, pathTo, sectionsOf, withDescendants } from "./command-path.ts";
import { type Place, refusal } from "./settings-text.ts";
import type { YamlEntries, YamlNode } from "./yaml-tree.ts";

/** A setting of a file, and its place. */
export interface FileSetting {
  readonly node: YamlNode;
  readonly place: Place;
}

/** A file's tree, and the name that errors give it. */
export interface SettingsFile {
  readonly file: string;
  readonly tree: YamlNode;
}

/** All commands with their flags, whose code is loaded only when it is needed. */
export type AllCommands = () => Promise<Command>;

/**
 * The settings for a command by key; those of an inner section win. Keys above a section may be of
 * any command below; a key of no command throws INVALID_ARGUMENT with its line, as does a
 * section that is no map.
 */
export async function fileSettings(
  { file, tree }: SettingsFile,
  command: Command,
  all: AllCommands,
): Promise<ReadonlyMap<string, FileSetting>> {
  const path = pathTo(command);
  const found = new Map<string, FileSetting>();
  const own = keysOf(command);
  let entries: YamlEntries | null = entriesOf({ file, tree });
  for (const [depth, level] of path.entries()) {
    if (entries === null) break;
    const next = path[depth + 1]?.name();
    let inner: YamlEntries | null = null;
    for (const [key, { place, node }] of entries) {
      // The name of a command is never a flag here: `worker` is also one of perigee route.
      if (key === next) inner = entriesOf({ file, tree: node }, key);
      else if (level.commands.some((child) => child.name() === key)) continue;
      else if (own.has(key)) found.set(key, { node, place });
      else {
        const problem = await unknownKey(key, path.slice(0, depth + 1), all);
        if (problem !== null) throw refusal(file, place, problem);
      }
    }
    entries = inner;
  }
  return found;
}

function entriesOf({ file, tree }: SettingsFile, section?: string): YamlEntries {
  if (tree.kind === "map") return tree.entries;
  // A section with nothing below it.
  if (tree.kind === "scalar" && tree.value === null) return new Map();
  const subject = section === undefined ? "a file of settings" : section;
  throw refusal(file, tree.place, `${subject} must be a map, such as port: 8000`);
}

/** What is wrong with a key that the called command does not have; null: another one has it. */
async function unknownKey(
  key: string,
  path: readonly Command[],
  all: AllCommands,
): Promise<string | null> {
  let level: Command | undefined = await all();
  const root = level;
  for (const each of path.slice(1)) {
    level = level?.commands.find((child) => child.name() === each.name());
  }
  if (level === undefined) return null;
  const known = knownBelow(level);
  return known.has(key) ? null : unknownText(key, { level, root, known });
}

/** Every key that a section may have. */
function knownBelow(level: Command): ReadonlySet<string> {
  const keys = [...withDescendants(level)].flatMap((each) => [...keysOf(each)]);
  return new Set([...keys, ...sectionsOf(level).keys()]);
}

function unknownText(
  key: string,
  { level, root, known }: Readonly<{ level: Command; root: Command; known: ReadonlySet<string> }>,
): string {
  const subject = level.parent === null ? "no setting and no command" : "no setting";
  const problem = `${key} is ${subject} of ${nameOf(level)}`;
  const near = nearestName(key, known);
  if (near !== null) return `${problem}; did you mean ${near}?`;
  const owner = [...withDescendants(root)].find((each) => keysOf(each).has(key));
  if (owner !== undefined) return `${problem}, but of ${nameOf(owner)}: move it there`;
  return `${problem}; keys are flags without dashes, see ${nameOf(level)} --help`;
}

/** Refuses what no command has, in all sections; the names of those that have settings. */
export function checkSections({ file, tree }: SettingsFile, root: Command): readonly Command[] {
  const called: Command[] = [];
  const visit = (node: YamlNode, level: Command): void => {
    const known = knownBelow(level);
    const sections = sectionsOf(level);
    if (level.commands.length === 0) called.push(level);
    const section = level.parent === null ? undefined : level.name();
    for (const [key, { place, node: inner }] of entriesOf({ file, tree: node }, section)) {
      const below = sections.get(key);
      if (below !== undefined) visit(inner, below);
      else if (!known.has(key))
        throw refusal(file, place, unknownText(key, { level, root, known }));
    }
  };
  visit(tree, root);
  return called;
}
