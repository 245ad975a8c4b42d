/** Completion scripts in the shells that they are for, where these are installed. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { bashCompletion } from "../../../src/cli/completion/bash.ts";
import { commandModel, everyCommand } from "../../../src/cli/completion/command-model.ts";
import { fishCompletion } from "../../../src/cli/completion/fish.ts";
import { zshCompletion } from "../../../src/cli/completion/zsh.ts";
import { loadProgram } from "../../../src/cli/program.ts";

const model = commandModel(await loadProgram("*"));
const flagCount = [...everyCommand(model)].flatMap(({ flags }) => flags).length;
const scripts = {
  bash: bashCompletion(model),
  fish: fishCompletion(model),
  zsh: zshCompletion(model),
};
type Shell = keyof typeof scripts;

const folder = mkdtempSync(join(tmpdir(), "perigee-shells-"));
afterAll(() => rmSync(folder, { recursive: true }));
for (const [shell, text] of Object.entries(scripts)) {
  writeFileSync(join(folder, `perigee.${shell}`), text);
}

const has = (program: string) => spawnSync(program, ["--version"]).status === 0;
const reason = (shell: Shell) => (has(shell) ? "" : ` (skipped: ${shell} is not installed)`);

/** Runs a shell in a folder with a file and nothing else; what it prints, a line each. */
function lines(shell: Shell, words: readonly string[]): string[] {
  const { stdout, stderr, status } = spawnSync(shell, words, {
    encoding: "utf8",
    cwd: folder,
    env: { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, TERM: "dumb" },
  });
  expect({ stderr, status }).toEqual({ stderr: "", status: 0 });
  return stdout
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** What each offers for a line whose last word is being written. */
const offered: Readonly<Record<Shell, (line: string) => string[]>> = {
  bash: (line) => {
    const quoted = line.split(/ |(?<==)|(?==)/).map((word) => `'${word}'`);
    const script = `source perigee.bash
compopt() { :; }
COMP_WORDS=(${quoted.join(" ")})
COMP_CWORD=${quoted.length - 1}
_perigee
printf '%s\\n' "\${COMPREPLY[@]}"`;
    return lines("bash", ["--norc", "-c", script]);
  },
  fish: (line) => {
    const script = `source perigee.fish; complete -C ${JSON.stringify(line)}`;
    const found = lines("fish", ["--no-config", "-c", script]);
    return found.map((each) => each.split("\t")[0]?.replace(/^--[a-z-]+=/, "") ?? "");
  },
  zsh: (line) => {
    const capture = resolve("test/cli/completion/zsh-offers.zsh");
    return lines("zsh", ["-f", capture, join(folder, "perigee.zsh"), line]);
  },
};

const LINES: readonly (readonly [string, readonly string[]])[] = [
  ["perigee se", ["serve"]],
  ["perigee bench la", ["latency"]],
  ["perigee --verbose bench th", ["throughput"]],
  ["perigee serve --kv-pool-b", ["--kv-pool-bytes"]],
  ["perigee serve --device c", ["cpu", "cuda"]],
  ["perigee serve --device=c", ["cpu", "cuda"]],
  ["perigee serve --device cpu --kv-pool-b", ["--kv-pool-bytes"]],
  ["perigee generate --early-stopping=n", ["never"]],
  ["perigee serve --api-key-file perigee.f", ["perigee.fish"]],
  ["perigee generate perigee.z", ["perigee.zsh"]],
  // A flag's value is no command, even where it has the name of one.
  ["perigee --config serve ro", ["route"]],
];

describe.each(["bash", "fish", "zsh"] as const)("%s", (shell) => {
  describe.skipIf(!has(shell))(`offers${reason(shell)}`, () => {
    test.for(LINES)("%s", { timeout: 30_000 }, ([line, words]) => {
      expect([...new Set(offered[shell](line))].sort()).toEqual([...words].sort());
    });
  });

  test.skipIf(!has(shell))(`reads the script without a complaint${reason(shell)}`, () => {
    expect(lines(shell, ["-n", `perigee.${shell}`])).toEqual([]);
  });
});

test("the scripts of zsh and fish name every flag of every command", () => {
  expect(scripts.zsh.match(/^ {4}'\*-/gm)?.length).toBeGreaterThanOrEqual(flagCount);
  expect(scripts.fish.match(/^complete .*?' -l [a-z]/gm)).toHaveLength(flagCount);
});
