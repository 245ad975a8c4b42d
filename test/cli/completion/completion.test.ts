import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { bashCompletion } from "../../../src/cli/completion/bash.ts";
import { commandModel, everyCommand } from "../../../src/cli/completion/command-model.ts";
import { manPage } from "../../../src/cli/completion/man-page.ts";
import { loadProgram } from "../../../src/cli/program.ts";

const model = commandModel(await loadProgram("*"));
const bash = bashCompletion(model);

const has = (program: string) => spawnSync(program, ["--version"]).status === 0;

/** What bash offers after the words of a line; the last one is being written. */
function offered(line: string): string[] {
  // As readline splits it: = is a word of its own.
  const words = line.split(/ |(?<==)|(?==)/);
  const quoted = words.map((word) => `'${word}'`).join(" ");
  const script = `${bash}
compopt() { :; }
COMP_WORDS=(${quoted})
COMP_CWORD=${words.length - 1}
_perigee
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr, status } = spawnSync("bash", ["-c", script], { encoding: "utf8" });
  expect({ stderr, status }).toEqual({ stderr: "", status: 0 });
  return stdout.split("\n").filter((word) => word !== "");
}

describe.skipIf(!has("bash"))("bash completes", () => {
  test.for<[string, readonly string[]]>([
    ["perigee se", ["serve"]],
    ["perigee bench la", ["latency"]],
    ["perigee --verbose bench th", ["throughput"]],
    ["perigee serve --kv-pool-b", ["--kv-pool-bytes"]],
    ["perigee serve --device c", ["cpu", "cuda"]],
    ["perigee serve --device=c", ["cpu", "cuda"]],
    ["perigee serve --device cpu --kv-pool-b", ["--kv-pool-bytes"]],
    ["perigee serve --prefix-caching o", ["on", "off"]],
    ["perigee generate --early-stopping n", ["never"]],
    ["perigee simulate --rejection pred", ["predicted"]],
    ["perigee serve --port 1", []],
    ["perigee serve --print-c", ["--print-config"]],
    ["perigee serve --api-key-file package.js", ["package.json"]],
    ["perigee generate models/poc", ["models/pocket"]],
    ["perigee rag ask --mo", ["--mode", "--model"]],
    // A flag's value is no command, even where it has the name of one.
    ["perigee --config serve ro", ["route"]],
  ])("%s", ([line, words]) => {
    expect(offered(line).sort()).toEqual([...words].sort());
  });

  test("every command and every flag", () => {
    for (const { path, flags, children } of everyCommand(model)) {
      const line = ["perigee", ...path].join(" ");
      const names = children.map((child) => child.path.at(-1));
      if (names.length > 0) expect(offered(`${line} `)).toEqual(names);
      expect(offered(`${line} --`)).toEqual(expect.arrayContaining(flags.map(({ long }) => long)));
    }
  });
});

test("the manual page has every command and flag, and no line that roff would read as its own", () => {
  const page = manPage(model, "1.2.3");
  const plain = page.replaceAll("\\-", "-");
  for (const { path, flags } of everyCommand(model)) {
    if (path.length > 0) expect(plain).toContain(`"PERIGEE ${path.join(" ").toUpperCase()}"`);
    for (const { usage } of flags) expect(plain).toContain(`.B ${usage}`);
  }
  const macros = new Set(["TH", "SH", "SS", "TP", "PP", "B", "I", "BR"]);
  const controls = page.split("\n").filter((line) => /^[.']/.test(line));
  const unknown = controls.filter((line) => !macros.has(line.slice(1).split(" ")[0] ?? ""));
  expect(unknown).toEqual([]);
});
