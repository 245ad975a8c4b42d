/** Every example runs, against the build, and prints what it promises. */
import { execFile } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";

const run = promisify(execFile);

const outputs: Readonly<Record<string, RegExp>> = {
  "generate.mjs": /^A cache is … \(0, length\): .*The function returns … \(1, /s,
  "kv-cache.mjs":
    /^What is a cache\? 0 of .*\n0 created.* stored 16 tokens of priority 90\n.* copied/s,
  "openai-client.mjs": /^I am Pocket/,
  "stream.mjs": /^412 metres\n\(stop\)\n$/,
  "structured-output.mjs": /^\{ name: '.+', city: '.+', age: 34 \}\n$/,
};

test("each example is known here", () => {
  expect(readdirSync("examples").sort()).toEqual(Object.keys(outputs));
});

// Examples import the package by its name: built code.
describe.runIf(existsSync("dist/index.js"))("examples", () => {
  test.for(Object.entries(outputs))("%s", async ([file, output]) => {
    const { stdout, stderr } = await run(process.execPath, [`examples/${file}`]);
    expect(stderr).toBe("");
    expect(stdout).toMatch(output);
  });
});
