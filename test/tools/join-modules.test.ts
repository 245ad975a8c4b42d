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
  const folder = mkdtempSync(join(tmpdir(), "perigee-dist-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const dist = join(folder, "dist");
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

test("packages of many files are joined, with their licences; others are imported", () => {
  const { dist, run, joined } = build();
  const [thread = ""] = threads;
  const file = (name: string) => join(dist, name);
  const add = (name: string, text: string) => {
    mkdirSync(file(`../node_modules/${name}`), { recursive: true });
    const about = { name, version: "1.2.3", main: "index.js" };
    writeFileSync(file(`../node_modules/${name}/package.json`), JSON.stringify(about));
    writeFileSync(file(`../node_modules/${name}/index.js`), text);
  };
  add("part", 'exports.text = require("node:path").join("of", "zod");');
  add("zod", 'exports.text = require("part").text;');
  add("other", 'exports.text = "of other";');
  const uses =
    'import { text } from "zod"; import { text as b } from "other"; console.log(text, b);';
  writeFileSync(file(thread), uses);
  const { stderr, status } = spawnSync(process.execPath, [TOOL, dist], { encoding: "utf8" });
  expect(status).toBe(1);
  expect(stderr).toContain("Cannot join part: it has no file of its licence");
  for (const name of ["part", "zod"]) writeFileSync(file(`../node_modules/${name}/LICENSE`), "MIT");
  joined();
  const licences = readFileSync(file("joined-licences.txt"), "utf8");
  expect(licences).toContain("part 1.2.3\n\nMIT\n");
  expect(licences).toContain("zod 1.2.3\n\nMIT\n");
  expect(licences).not.toContain("other");
  for (const name of ["part", "zod"]) rmSync(file(`../node_modules/${name}`), { recursive: true });
  expect(run(file(thread))).toEqual(["of/zod of other"]);
});

test("a build without a thread's file is refused", () => {
  const { dist } = build();
  const [thread = ""] = threads;
  rmSync(join(dist, thread));
  const { stderr, status } = spawnSync(process.execPath, [TOOL, dist], { encoding: "utf8" });
  expect(status).toBe(1);
  expect(stderr).toContain(`Cannot join ${join(dist, thread)}: it is not built`);
});
