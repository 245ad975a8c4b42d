import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { lockFolder } from "../../../src/engine/tiers/folder-lock.ts";

let root: string;
let lock: string;
let precious: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "perigee-lock-"));
  lock = join(root, "lock");
  precious = join(root, "precious");
  writeFileSync(precious, "do not lose this");
});
afterEach(() => rmSync(root, { recursive: true }));

test("a symbolic link in the lock's place is refused, and what it leads to stays", async () => {
  symlinkSync(precious, lock);
  await expect(lockFolder(lock)).rejects.toThrow("its file lock is a symbolic link");
  expect(readFileSync(precious, "utf8")).toBe("do not lose this");
});

test("a link to nothing makes nothing", async () => {
  symlinkSync(join(root, "absent"), lock);
  await expect(lockFolder(lock)).rejects.toThrow("symbolic link");
  expect(existsSync(join(root, "absent"))).toBe(false);
});

test("a second name of another file is refused, and the file stays", async () => {
  linkSync(precious, lock);
  await expect(lockFolder(lock)).rejects.toThrow("something else than a process id");
  expect(readFileSync(precious, "utf8")).toBe("do not lose this");
});

test("a second name of a file that could be a lock is refused too", async () => {
  writeFileSync(precious, "42\n");
  linkSync(precious, lock);
  await expect(lockFolder(lock)).rejects.toThrow("something else than a process id");
  expect(readFileSync(precious, "utf8")).toBe("42\n");
});

test.each(["a text", "1".repeat(65), "\0"])(
  "a file with %j is no lock, and stays",
  async (text) => {
    writeFileSync(lock, text);
    await expect(lockFolder(lock)).rejects.toThrow("something else than a process id");
    expect(readFileSync(lock, "utf8")).toBe(text);
  },
);

test.skipIf(process.platform === "win32")("a pipe is refused at once", async () => {
  execFileSync("mkfifo", [lock]);
  await expect(lockFolder(lock)).rejects.toThrow(/process id|ENXIO/);
});

test.skipIf(process.getuid === undefined)(
  "a lock that others may write to is refused",
  async () => {
    writeFileSync(lock, "");
    chmodSync(lock, 0o666);
    await expect(lockFolder(lock)).rejects.toThrow("others may write to it");
  },
);

test("an earlier lock is taken over, whatever the length of its process id", async () => {
  for (const earlier of ["", "7\n", "12345678901234567890\n"]) {
    writeFileSync(lock, earlier, { mode: 0o600 });
    const held = await lockFolder(lock);
    if ("owner" in held) throw new Error(`held by ${held.owner}`);
    expect(readFileSync(lock, "utf8").trim()).toBe(String(process.pid));
    expect(await lockFolder(lock)).toEqual({ owner: String(process.pid) });
    await held.release();
  }
  expect(statSync(lock).mode & 0o777).toBe(0o600);
});
