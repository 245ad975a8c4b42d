import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { runLimited } from "../../bench/gpu/limited-child.mjs";
import { isAlive } from "../support/process-alive.ts";

const folder = mkdtempSync(join(tmpdir(), "perigee-limited-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a script of node's; what came of it, and what it and its children printed. */
async function run(script: string, limitSeconds: number) {
  const file = join(folder, "output.txt");
  const command: [string, ...string[]] = [process.execPath, "-e", script];
  const { state, rc } = await runLimited(command, { cwd: folder, file, limitSeconds });
  return { state, rc, text: readFileSync(file, "utf8") };
}

/** Prints its number, then hangs. */
const child = `
  const { spawn } = require("node:child_process");
  const hang = "console.log(process.pid); setInterval(() => {}, 1000)";
  const child = spawn(process.execPath, ["-e", hang], { stdio: ["ignore", "pipe", "ignore"] });
`;

test("a command's end and its output are its own", async () => {
  expect(await run(`console.log("some"); console.error("more"); process.exit(3)`, 60)).toEqual({
    state: "ended",
    rc: 3,
    text: "some\nmore\n",
  });
});

test.runIf(process.platform === "linux")("a limit ends a command and its children", async () => {
  const script = `${child} child.stdout.on("data", (pid) => process.stdout.write(pid))`;
  const { state, rc, text } = await run(script, 3);
  expect([state, rc]).toEqual(["killed", "SIGKILL"]);
  expect(Number(text)).toBeGreaterThan(0);
  await expect.poll(() => isAlive(Number(text))).toBe(false);
});

test.runIf(process.platform === "linux")("what a command leaves behind goes with it", async () => {
  const script = `${child} child.stdout.on("data", (pid) => {
    process.stdout.write(pid, () => process.exit(0));
  })`;
  const { state, rc, text } = await run(script, 60);
  expect([state, rc]).toEqual(["ended", 0]);
  await expect.poll(() => isAlive(Number(text))).toBe(false);
});

test("a program that is not there is said", async () => {
  const file = join(folder, "none.txt");
  const options = { cwd: folder, file, limitSeconds: 60 };
  const { state, rc } = await runLimited(["no-such-program"], options);
  expect([state, rc]).toEqual(["spawn no-such-program ENOENT", null]);
});
