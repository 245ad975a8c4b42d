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
