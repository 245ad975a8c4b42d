import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { v8Flags } from "../../src/cli/v8-flags.ts";

const OLD = "--memory-reducer-single-gc";
const NEW = "--memory-reducer-gc-count=1";
const FOR_ALL = "--no-allocation-site-pretenuring";

test.each([
  { words: ["route", "--help"], v8: "11.3.244.8-node.33", flags: [OLD, FOR_ALL] },
  { words: ["--verbose", "route"], v8: "12.4.254.21-node.33", flags: [NEW, FOR_ALL] },
  { words: ["route"], v8: "13.6.233.17-node.28", flags: [NEW, FOR_ALL] },
  { words: ["serve", "--port", "0"], v8: "11.3.244.8-node.33", flags: [] },
  { words: [], v8: "12.4.254.21-node.33", flags: [] },
])("V8 $v8 runs $words with $flags", ({ words, v8, flags }) => {
  expect(v8Flags(words, v8)).toEqual(flags);
});

test.each([[["route", "--help"]], [["--verbose", "route", "--help"]]])(
  "this V8 has the flags that %j sets before anything else",
  (words) => {
    const { status, stderr, stdout } = spawnSync(process.execPath, ["dist/cli/main.js", ...words], {
      encoding: "utf8",
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toContain("--worker");
  },
);
