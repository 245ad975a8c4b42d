import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { threadId } from "node:worker_threads";
import { afterEach, beforeEach, expect, test } from "vitest";
import { KernelCache, type KernelTarget } from "../../../src/devices/cuda/kernels/kernel-cache.ts";

let root: string;
let folder: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "perigee-kernels-"));
  folder = join(root, "cache", "kernels");
});
afterEach(() => rmSync(root, { recursive: true }));

const source = {
  path: "native/cuda/norm.cu",
  text: '#include "a.h"\n',
  headers: { "a.h": "int a;" },
};
const target: KernelTarget = {
  architecture: "sm_90a",
  options: ["--std=c++17"],
  nvrtcVersion: 13_000,
  driverVersion: 13_000,
};
const code = Uint8Array.of(1, 2, 3, 4, 5);

function onlyFile(): string {
  const [name = "", ...others] = readdirSync(folder);
  expect(others).toEqual([]);
  return join(folder, name);
}

test("what was stored is found again, by another cache too", () => {
  new KernelCache(folder).store(source, target, code);
  expect(new KernelCache(folder).find(source, target)).toEqual(Buffer.from(code));
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(onlyFile()).toMatch(/norm-sm_90a-[0-9a-f]{32}\.cubin$/);
});

test("machine code is another one's with any other source, header, option or version", () => {
  const cache = new KernelCache(folder);
  cache.store(source, target, code);
  const others: readonly [typeof source, KernelTarget][] = [
    [{ ...source, text: "other" }, target],
    [{ ...source, headers: { "a.h": "int b;" } }, target],
    [source, { ...target, architecture: "sm_80" }],
    [source, { ...target, options: [] }],
    [source, { ...target, nvrtcVersion: 12_080 }],
    [source, { ...target, driverVersion: 13_010 }],
  ];
  for (const [otherSource, otherTarget] of others) {
    expect(cache.find(otherSource, otherTarget)).toBeNull();
  }
});

test("a file that was cut short, emptied or changed is no entry, and is written anew", () => {
  const cache = new KernelCache(folder);
  for (const spoil of [
    (path: string) => truncateSync(path, 35),
    (path: string) => truncateSync(path, 32),
    (path: string) => truncateSync(path, 0),
    (path: string) => {
      const bytes = readFileSync(path);
      bytes[33] = 99;
      writeFileSync(path, bytes);
    },
  ]) {
    cache.store(source, target, code);
    spoil(onlyFile());
    expect(cache.find(source, target)).toBeNull();
  }
});

test("what a driver refused is forgotten", () => {
  const cache = new KernelCache(folder);
  cache.store(source, target, code);
  cache.forget(source, target);
  expect(cache.find(source, target)).toBeNull();
  expect(readdirSync(folder)).toEqual([]);
});

test("eight versions of a kernel are kept, and those of its namesakes are left alone", () => {
  const cache = new KernelCache(folder);
  const namesake = { ...source, path: "native/cuda/norm-rows.cu" };
  cache.store(namesake, target, code);
  for (let version = 0; version < 12; version++) {
    cache.store(source, { ...target, driverVersion: version }, code);
  }
  expect(readdirSync(folder)).toHaveLength(9);
  expect(cache.find(namesake, target)).not.toBeNull();
});

test("a folder that others may write to is not used, and said to be once", () => {
  new KernelCache(folder).store(source, target, code);
  chmodSync(folder, 0o777);
  const warnings: string[] = [];
  const cache = new KernelCache(folder, (message) => warnings.push(message));
  expect(cache.find(source, target)).toBeNull();
  cache.store(source, target, code);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/others may write to it; kernels are compiled at every start/);
});

test("an entry that is a link, or that others may write to, is no entry", () => {
  const cache = new KernelCache(folder);
  cache.store(source, target, code);
  const entry = onlyFile();
  chmodSync(entry, 0o666);
  expect(cache.find(source, target)).toBeNull();
  chmodSync(entry, 0o600);
  expect(cache.find(source, target)).not.toBeNull();
  renameSync(entry, join(root, "moved"));
  symlinkSync(join(root, "moved"), entry);
  expect(cache.find(source, target)).toBeNull();
});

test("a link in the place of a file that is being written is replaced, not followed", () => {
  const cache = new KernelCache(folder);
  cache.store(source, target, code);
  const precious = join(root, "precious");
  writeFileSync(precious, "do not lose this");
  symlinkSync(precious, `${onlyFile()}.${process.pid}-${threadId}.part`);
  cache.store(source, target, code);
  expect(readFileSync(precious, "utf8")).toBe("do not lose this");
  expect(cache.find(source, target)).toEqual(Buffer.from(code));
});

test("a folder that cannot be made costs compilations only", () => {
  writeFileSync(join(root, "cache"), "a file");
  const warnings: string[] = [];
  const cache = new KernelCache(folder, (message) => warnings.push(message));
  cache.store(source, target, code);
  expect(cache.find(source, target)).toBeNull();
  expect(warnings).toHaveLength(1);
});

test("no folder keeps nothing", () => {
  const cache = new KernelCache(null);
  cache.store(source, target, code);
  expect(cache.find(source, target)).toBeNull();
});
