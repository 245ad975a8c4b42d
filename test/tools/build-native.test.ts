import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const script = fileURLToPath(new URL("../../tools/build-native.mjs", import.meta.url));

function build(environment: NodeJS.ProcessEnv) {
  return spawnSync(process.execPath, [script, "--usable"], { encoding: "utf8", env: environment });
}

test("without a compiler it loudly says what to install, and fails nothing", () => {
  const { status, stderr } = build({ PATH: "" });
  expect(status).toBe(0);
  expect(stderr).toMatch(/no C\+\+ compiler found[\s\S]*(apt install g\+\+|xcode-select)/);
});

test("what was built before is not built again", () => {
  const { status, stdout, stderr } = build(process.env);
  expect([status, stderr]).toEqual([0, ""]);
  expect(build(process.env).stdout).toBe("");
  expect(stdout.split("\n").every((line) => line === "" || line.includes("built"))).toBe(true);
});
