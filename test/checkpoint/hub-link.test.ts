/** A folder under a name in the cache of the hub's tools. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { linkModel, listCachedModels, resolveModel } from "#checkpoint";
import { scratchFolder } from "./scratch-folder.ts";

const FOLDER = "models/pocket";

test.each(["pocket", "org/pocket"])("%s is found where tools look it up", async (name) => {
  const cacheDir = scratchFolder();
  const path = await linkModel({ name, folder: FOLDER, cacheDir });
  const repository = join(cacheDir, `models--${name.replace("/", "--")}`);
  const commit = readFileSync(join(repository, "refs/main"), "utf8");
  expect(path).toBe(join(repository, "snapshots", commit));
  expect(commit).toMatch(/^[0-9a-f]{40}$/);
  expect(readFileSync(join(path, "tokenizer.json"))).toEqual(
    readFileSync(join(FOLDER, "tokenizer.json")),
  );
  expect(await resolveModel(name, { cacheDir })).toBe(path);
  expect((await listCachedModels(cacheDir)).map((model) => model.name)).toEqual([name]);
});

test("a second call replaces the links, for another folder, too", async () => {
  const cacheDir = scratchFolder();
  const first = await linkModel({ name: "m", folder: FOLDER, cacheDir });
  expect(await linkModel({ name: "m", folder: FOLDER, cacheDir })).toBe(first);
  const second = await linkModel({ name: "m", folder: "test/fixtures/models/llama", cacheDir });
  expect(second).not.toBe(first);
  expect(readdirSync(join(cacheDir, "models--m/snapshots"))).toHaveLength(1);
});

test("a downloaded model is never replaced", async () => {
  const cacheDir = scratchFolder();
  mkdirSync(join(cacheDir, "models--org--m/blobs"), { recursive: true });
  mkdirSync(join(cacheDir, "models--org--m/snapshots/abc"), { recursive: true });
  writeFileSync(join(cacheDir, "models--org--m/snapshots/abc/config.json"), "{}");
  const link = linkModel({ name: "org/m", folder: FOLDER, cacheDir });
  await expect(link).rejects.toThrow(/^Cannot link org\/m: the cache must not have a downloaded/);
  expect(readdirSync(join(cacheDir, "models--org--m/snapshots"))).toEqual(["abc"]);
});

test.each([
  ["../../etc", FOLDER, "INVALID_ARGUMENT"],
  ["m", "test", "MODEL_NOT_FOUND"],
  ["m", "nowhere", "MODEL_NOT_FOUND"],
])("%j for %j is refused", async (name, folder, code) => {
  const link = linkModel({ name, folder, cacheDir: scratchFolder() });
  await expect(link).rejects.toMatchObject({ code });
});
