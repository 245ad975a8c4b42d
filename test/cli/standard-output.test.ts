/** Who reads standard output, and how. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { eachNth } from "../support/full.ts";
import { built, perigee } from "./perigee.ts";

const main = "dist/cli/main.js";
const words = ["generate", "-p", "A hash table stores", "--max-tokens", "200", "--ignore-eos"];
const LATE_MS = 500;

describe.skipIf(!built || !existsSync("/dev/full"))("on a full disk", () => {
  const commands = [
    { name: "a text that is streamed", command: words },
    { name: "JSON of results", command: [...words, "--json"] },
    { name: "what a command prints at once", command: ["doctor", "--json"] },
  ];
  test.each(eachNth(2, commands))("$name ends with one line and code 1", async ({ command }) => {
    const full = openSync("/dev/full", "w");
    const child = spawn(process.execPath, [main, ...command], { stdio: ["ignore", full, "pipe"] });
    closeSync(full);
    let stderr = "";
    child.stderr?.on("data", (chunk) => {
      stderr += chunk;
    });
    const [code] = await once(child, "close");
    const lines = stderr.split("\n").filter((line) => line.startsWith("perigee: Cannot"));
    expect(lines).toEqual([
      "perigee: Cannot write standard output: wanted a file that can be written, the disk is full",
    ]);
    expect(stderr).not.toContain("    at ");
    expect(code).toBe(1);
  });
});

describe.skipIf(!built)("in a pipe", () => {
  test("a reader that closes it ends the command, quietly", async () => {
    const child = spawn(process.execPath, [main, ...words, "--max-tokens", "1500"]);
    let stderr = "";
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    child.stdin.end();
    await once(child.stdout, "data");
    child.stdout.destroy();
    const [code] = await once(child, "close");
    expect(code).toBe(0);
    expect(stderr).not.toContain("EPIPE");
  });

  test("a reader that comes late gets everything", async () => {
    // How much is drafted depends on time, and is printed.
    const same = [...words, "--temperature", "0", "--speculative", "off"];
    const other = perigee(same);
    const child = spawn(process.execPath, [main, ...same]);
    child.stdin.end();
    await once(child.stdout, "readable");
    await sleep(LATE_MS);
    let stdout = "";
    for await (const chunk of child.stdout) stdout += chunk;
    expect(stdout).toBe((await other).stdout);
  });
});
