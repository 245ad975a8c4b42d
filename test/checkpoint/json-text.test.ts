import { execFileSync } from "node:child_process";
import { existsSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openCheckpoint } from "#checkpoint";
import { readJsonObject } from "../../src/checkpoint/json-text.ts";
import { sized } from "../support/full.ts";
import { scratchFolder } from "./scratch-folder.ts";

/** Far beyond what a stack holds. */
const DEEP = sized(1_000_000, 5_000_000);

function written(text: string): string {
  const path = join(scratchFolder(), "config.json");
  writeFileSync(path, text);
  return path;
}

const nested = (depth: number) => `{"a": ${"[".repeat(depth)}${"]".repeat(depth)}}`;

test("nesting that readers would not survive is refused, by the file's name", () => {
  expect(readJsonObject(written(nested(150)))).toHaveProperty("a");
  for (const depth of [201, 100_000, DEEP]) {
    const path = written(nested(depth));
    const message = `Cannot load ${path}: content must nest at most 200 deep`;
    expect(() => readJsonObject(path)).toThrow(
      expect.objectContaining({
        code: "CHECKPOINT_INVALID",
        message: expect.stringContaining(message),
      }),
    );
  }
});

test("brackets without end are no JSON, and no end of the process", () => {
  const path = written(`{"a": ${"[".repeat(DEEP)}`);
  expect(() => readJsonObject(path)).toThrow("content must be valid JSON");
});

test("keys that mean something to JavaScript are keys like others", () => {
  const path = written(
    '{"__proto__": {"polluted": true}, "constructor": 1, "a": {"__proto__": 2}}',
  );
  const found = readJsonObject(path) ?? {};
  expect(Object.keys(found)).toEqual(["__proto__", "constructor", "a"]);
  expect(Object.getPrototypeOf(found)).toBe(Object.prototype);
  expect(Reflect.get({}, "polluted")).toBeUndefined();
});

test.skipIf(process.platform === "win32")("a pipe in a file's place is not waited for", () => {
  const folder = scratchFolder();
  execFileSync("mkfifo", [join(folder, "config.json")]);
  expect(() => openCheckpoint(folder)).toThrow(
    expect.objectContaining({ code: "IO", message: expect.stringContaining("no regular file") }),
  );
});

test.runIf(existsSync("/dev/zero"))("a link to a device without end is not read", () => {
  const folder = scratchFolder();
  symlinkSync("/dev/zero", join(folder, "config.json"));
  expect(() => openCheckpoint(folder)).toThrow("no regular file");
});
