import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";

test.each([[["route", "--help"]], [["--verbose", "route", "--help"]]])(
  "V8 has the flags that %j sets before anything else",
  (words) => {
    const { status, stderr, stdout } = spawnSync(process.execPath, ["dist/cli/main.js", ...words], {
      encoding: "utf8",
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toContain("--worker");
  },
);
