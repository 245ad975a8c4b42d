import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const TOOL = "tools/join-modules.mjs";
const MAIN = "cli/main.js";

/** Entries as the tool has them: a name that is no file of the build ends it. */
const threads = [...readFileSync(TOOL, "utf8").matchAll(/^ {2}"([\w/-]+)",$/gm)].map(([, name]) => {
  return `${name}.js`;
});

/** A build in which each thread says where it is, and a command is imported when it is wanted. */
function build() {
  const dist = mkdtempSync(join(tmpdir(), "perigee-dist-"));
  onTestFinished(() => rmSync(dist, { recursive: true }));
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(dist, file)), { recursive: true });
    writeFileSync(join(dist, file), text);
  };
  const own = "export const place = (name) => new URL(name, import.meta.url).pathname;";
  write("package.json", '{ "type": "module" }');
  write("base/own.js", own);
  for (const thread of threads) {
    const base = thread.split("/").map(() => "..");
    const from = [...base.slice(1), "base/own.js"].join("/");
    write(thread, `import { place } from "${from}"; console.log(place("data.txt"));`);
  }
  write("cli/early.js", 'console.log("early");');
  write(
    MAIN,
    '#!/usr/bin/env node\nimport "./early.js";\n' +
      'if (process.argv[2] === "go") await import("./commands/go.js");',
  );
  write(
    "cli/commands/go.js",
    'import { place } from "../../base/own.js"; console.log(place("x"), import.meta.url);',
  );
  const run = (...words: string[]) => {
    const { stdout, stderr, status } = spawnSync(process.execPath, words, { encoding: "utf8" });
    expect(stderr).toBe("");
    expect(status).toBe(0);
    return stdout.trim().split("\n");
  };
  return { dist, run, joined: () => run(TOOL, dist) };
}

test("the CLI reads a command's file where it is asked for, and modules know their places", () => {
  const { dist, run, joined } = build();
  const file = (name: string) => join(dist, name);
  joined();
  const wanted = ["early", `${file("base/x")} file://${file("cli/commands/go.js")}`];
  expect(run(file(MAIN), "go")).toEqual(wanted);
  expect(run(file(MAIN))).toEqual(["early"]);
  expect(readFileSync(file("cli/joined/main.js"), "utf8")).not.toContain("base/");
  // A second time there is nothing left of the first.
  writeFileSync(file("cli/joined/old.js"), "");
  joined();
  expect(existsSync(file("cli/joined/old.js"))).toBe(false);
  expect(run(file(MAIN), "go")).toEqual(wanted);
  // What tsc wrote is there, and works.
  expect(run(file("cli/main.parts.js"), "go")).toEqual(wanted);
});

test("a thread starts from one file", () => {
  const { dist, run, joined } = build();
  joined();
  expect(threads.length).toBeGreaterThan(5);
  rmSync(join(dist, "base"), { recursive: true });
  const [thread = ""] = threads;
  expect(run(join(dist, thread))).toEqual([join(dist, "base/data.txt")]);
});

test("a build without a thread's file is refused", () => {
  const { dist } = build();
  const [thread = ""] = threads;
  rmSync(join(dist, thread));
  const { stderr, status } = spawnSync(process.execPath, [TOOL, dist], { encoding: "utf8" });
  expect(status).toBe(1);
  expect(stderr).toContain(`Cannot join ${join(dist, thread)}: it is not built`);
});
