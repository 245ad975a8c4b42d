import { chmodSync, chownSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock, systemTimer } from "#base";
import { systemFiles } from "../../../src/engine/tiers/disk-files.ts";
import { type FolderOptions, openFolder } from "../../../src/engine/tiers/disk-folder.ts";
import { scratchFolder } from "../../checkpoint/scratch-folder.ts";

const FINGERPRINT = "0123456789abcdef0123456789abcdef";
const isRoot = process.getuid?.() === 0;
const hasOwners = process.getuid !== undefined;

function setUp() {
  const dir = scratchFolder();
  const warnings: string[] = [];
  const options: FolderOptions = {
    ...{ dir, fingerprint: FINGERPRINT, hashRule: "sha256_cbor", files: systemFiles },
    ...{ blockTokens: 4, bytesPerBlock: 64, capacityBlocks: 10 },
    ...{ clock: systemClock, timer: systemTimer, warn: (text) => warnings.push(text) },
  };
  const folder = join(dir, `${FINGERPRINT}-sha256_cbor`);
  return { dir, folder, warnings, open: () => openFolder(options) };
}

test("a store's folder that is a link is refused, and nothing is written behind it", async () => {
  const { dir, folder, warnings, open } = setUp();
  const elsewhere = join(dir, "elsewhere");
  mkdirSync(elsewhere);
  symlinkSync(elsewhere, folder);
  expect(await open()).toBeNull();
  expect(warnings).toEqual([expect.stringMatching(/it is a symbolic link .*pass another folder$/)]);
  expect(existsSync(join(elsewhere, "lock"))).toBe(false);
});

test.runIf(hasOwners)("a store's folder that others may write to is refused", async () => {
  const { folder, warnings, open } = setUp();
  mkdirSync(folder);
  chmodSync(folder, 0o770);
  expect(await open()).toBeNull();
  expect(warnings).toEqual([expect.stringContaining("others may write to it")]);
});

test.runIf(isRoot)("a store's folder of another user is refused", async () => {
  const { folder, warnings, open } = setUp();
  mkdirSync(folder, { mode: 0o700 });
  chownSync(folder, 12345, 12345);
  expect(await open()).toBeNull();
  expect(warnings).toEqual([expect.stringContaining("it belongs to another user")]);
});

test("a link among a store's folders is not followed to files that would be removed", async () => {
  const { dir, folder, warnings, open } = setUp();
  mkdirSync(folder, { mode: 0o700 });
  const elsewhere = join(dir, "elsewhere");
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, "letter.tmp"), "do not lose this");
  symlinkSync(elsewhere, join(folder, "ab"));
  expect(await open()).toBeNull();
  expect(warnings).toEqual([expect.stringContaining("ab in it is no folder")]);
  expect(existsSync(join(elsewhere, "letter.tmp"))).toBe(true);
});

test.runIf(hasOwners)("a parent that is open to all is used, and said to be", async () => {
  const { dir, warnings, open } = setUp();
  chmodSync(dir, 0o777);
  const opened = await open();
  expect(opened).not.toBeNull();
  await opened?.lock.release();
  expect(warnings).toEqual([expect.stringMatching(/all users may write to .*chmod o-w$/)]);
  chmodSync(dir, 0o1777);
  const again = await open();
  await again?.lock.release();
  expect(warnings).toHaveLength(1);
});
