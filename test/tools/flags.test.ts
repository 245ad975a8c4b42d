import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

function run(...words: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
  return { status, stdout, stderr };
}

test.each(["--operation", "--seed"])("%s alone is one line and code 2", (flag) => {
  const { status, stdout, stderr } = run("tools/fuzz.mjs", flag);
  expect(status).toBe(2);
  expect(stdout).toBe("");
  expect(stderr).toContain(flag);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test.each([
  ["tools/fuzz.mjs", ["--operations", "many"], 'at least 1, got "many"'],
  ["tools/fuzz.mjs", ["--operations", "0"], 'at least 1, got "0"'],
  ["bench/tiers.mjs", ["--lengths", "16,,64"], 'at least 1, got ""'],
  ["bench/start.mjs", ["--idle-seconds", "NaN"], 'at least 0, got "NaN"'],
])("%s refuses %j in one line", (file, words, wanted) => {
  const { status, stdout, stderr } = run(file, ...words);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toContain(wanted);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test.each([
  ["tools/fuzz.mjs", "npm run fuzz"],
  ["bench/gpu/serve.mjs", "node bench/gpu/serve.mjs"],
])("--help of %s is its leading comment", (file, first) => {
  const { status, stdout, stderr } = run(file, "--help");
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout.startsWith(first)).toBe(true);
  for (const line of stdout.trimEnd().split("\n")) {
    expect(line).not.toMatch(/^\s*(?:\*|\/\/)/);
    expect(readFileSync(file, "utf8")).toContain(line);
  }
});
