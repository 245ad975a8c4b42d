/** The rules of `.gitignore` files, as git applies them: those of a deeper folder go before. */
import { lstat, open } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import ignore, { type Ignore } from "ignore";

/** Longer files of rules are cut off. */
const BYTES_MAX = 2 ** 20;
/**
 * A line with more stars in one part of a path, or with more parts `**`, is left out: rules become
 * regular expressions, which such a line makes slow.
 */
const STARS_MAX = 3;

/** Rules of one folder, above those of the folders that it is in. */
export class IgnoreRules {
  readonly #folder: string;
  readonly #rules: Ignore | null;
  readonly #above: IgnoreRules | null;

  private constructor(folder: string, rules: Ignore | null, above: IgnoreRules | null) {
    this.#folder = folder;
    this.#rules = rules;
    this.#above = above;
  }

  /** The rules in a folder, with those above it up to the top of its git repository. */
  static async of(folder: string): Promise<IgnoreRules> {
    const above = await foldersAbove(folder);
    let rules: IgnoreRules | null = null;
    for (const one of above) rules = await IgnoreRules.#load(one, rules);
    // A folder that is asked for by name is read even where its repository ignores it.
    return IgnoreRules.#load(folder, rules?.ignores(folder, true) ? null : rules);
  }

  /** The rules in a folder directly within this one. */
  within(folder: string): Promise<IgnoreRules> {
    return IgnoreRules.#load(folder, this);
  }

  /** Whether a path within the folder is ignored; what is in ignored folders is not asked for. */
  ignores(path: string, isFolder: boolean): boolean {
    const name = relative(this.#folder, path).split(sep).join("/");
    const verdict = this.#rules?.test(isFolder ? `${name}/` : name);
    if (verdict?.ignored === true) return true;
    if (verdict?.unignored === true || this.#above === null) return false;
    return this.#above.ignores(path, isFolder);
  }

  static async #load(folder: string, above: IgnoreRules | null): Promise<IgnoreRules> {
    const text = await textOf(join(folder, ".gitignore"));
    if (text === null) return above ?? new IgnoreRules(folder, null, null);
    const lines = text.split(/\r?\n/).filter((line) => !isSlow(line));
    return new IgnoreRules(folder, ignore({ allowRelativePaths: true }).add(lines), above);
  }
}

/** Folders above one, the highest first, that are in the same git repository; none outside one. */
async function foldersAbove(folder: string): Promise<string[]> {
  const found: string[] = [];
  for (let at = folder; ; at = dirname(at)) {
    const isTop = await lstat(join(at, ".git")).then(
      () => true,
      () => false,
    );
    if (at !== folder) found.unshift(at);
    if (isTop) return found;
    if (dirname(at) === at) return [];
  }
}

/** Null: there is no such file, or it is no regular one. */
async function textOf(path: string): Promise<string | null> {
  try {
    const stat = await lstat(path);
    if (!stat.isFile()) return null;
    const file = await open(path);
    try {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(Math.min(stat.size, BYTES_MAX)));
      return buffer.toString("utf8", 0, bytesRead);
    } finally {
      await file.close();
    }
  } catch {
    return null; // A folder without rules, or whose rules cannot be read: all of it is read.
  }
}

function isSlow(line: string): boolean {
  const parts = line.split("/");
  if (parts.filter((part) => part.includes("**")).length > STARS_MAX) return true;
  return line.length > 1000 || parts.some((part) => stars(part) > STARS_MAX);
}

function stars(part: string): number {
  return part === "**" ? 0 : (part.match(/\*+/g)?.length ?? 0);
}
