/**
 * The terminals of the documents, run as a reader who follows a page does: commands in order, and
 * what they print beside what the page shows. What is not run here says so where it stands, or is a
 * program for which a test has no time: see `isLeftOut`.
 */
import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { built } from "../cli/perigee.ts";
import { eachNth } from "../support/full.ts";
import { type Block, blocksOf, blocksOfFile, documentPaths } from "./document-blocks.ts";
import { ReaderSession, withBundled } from "./reader-session.ts";
import {
  perigeeWords,
  printsAsShown,
  type ShownCommand,
  shownCommands,
  simpleCommands,
} from "./shell-lines.ts";

/**
 * Commands that are checked in documents.test.ts alone: npm installs and tests, scripts of a clone
 * measure and build, `models pull` downloads, a synopsis leaves words out.
 */
function isLeftOut(command: string): boolean {
  return simpleCommands(command).some((words) => {
    const [program = "", first = ""] = words;
    const own = perigeeWords(words);
    if (own !== null) return own[0] === "models" && own[1] === "pull";
    return program === "npm" || program === "node" || (program === "npx" && first === "vitest");
  });
}

const missing = (program: string) => spawnSync("which", [program]).status !== 0;

/** Why nothing of a block is run; null: something is. */
function reasonOf({ code, notRun, needs }: Block): string | null {
  if (notRun !== null) return notRun;
  const absent = needs.filter(missing);
  if (absent.length > 0) return `${absent.join(", ")} is missing`;
  const commands = shownCommands(code);
  return commands.every(({ command }) => isLeftOut(command)) ? "checked alone" : null;
}

/** Fails where a command fails, or prints another thing than the page shows. */
async function follow(session: ReaderSession, commands: readonly ShownCommand[]): Promise<void> {
  for (const shown of commands) {
    if (isLeftOut(shown.command)) continue;
    const { code, output } = await session.run(shown);
    const isServing = code === null;
    expect(isServing || code === 0, `${shown.command}\nended with ${code}:\n${output}`).toBe(true);
    const wanted = shown.shown === null ? null : withBundled(shown.shown);
    if (wanted !== null && !printsAsShown(wanted, output)) expect(output).toBe(wanted);
  }
  await session.settle();
}

/** What a reader of a page has beside the page. */
const FILES: Readonly<Record<string, readonly string[]>> = {
  "README.md": ["docs/fleet.md"],
  "docs/rag.md": ["README.md", "docs/fleet.md"],
};

const allPages = documentPaths()
  .map((path): [string, Block[]] => [path, blocksOfFile(path).filter((b) => b.kind === "shell")])
  .filter(([, blocks]) => blocks.length > 0);
/** Short runs have those that most read, and a quarter of the others. */
const FIRST = ["README.md", "docs/fleet.md", "docs/rag.md"];
const pages = [
  ...allPages.filter(([path]) => FIRST.includes(path)),
  ...eachNth(
    4,
    allPages.filter(([path]) => !FIRST.includes(path)),
  ),
];

describe.runIf(built)("a reader", () => {
  describe.each(pages)("of %s", (path, blocks) => {
    let session: ReaderSession;
    beforeAll(async () => {
      session = await ReaderSession.start(FILES[path] ?? []);
    });
    afterAll(() => session.close());

    for (const block of blocks) {
      const reason = reasonOf(block);
      const title = `line ${block.line}${reason === null ? "" : ` (${reason})`}`;
      test.skipIf(reason !== null)(title, () => follow(session, shownCommands(block.code)));
    }
  });

  test.each<[string, string, RegExp]>([
    ["a command that fails", "$ false", /ended with 1/],
    ["a command that ends the terminal", "$ exit 0", /ended with 1/],
    ["another output", "$ echo one\ntwo", /one/],
    ["a refused request", "curl http://127.0.0.1:8000/v1/models/nothing", /ended with 22/],
    ["a server that does not start", "perigee serve models/nothing", /ended with [12]/],
  ])("finds %s", async (_, code, problem) => {
    const [block] = blocksOf("planted.md", `\`\`\`\n${code}\n\`\`\`\n`);
    const session = await ReaderSession.start([]);
    try {
      await expect(follow(session, shownCommands(block?.code ?? ""))).rejects.toThrow(problem);
    } finally {
      await session.close();
    }
  });
});
