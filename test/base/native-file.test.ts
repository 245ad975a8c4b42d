import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { findNativeFile, nativeRemedy } from "#base";

/** A package's folder with these files, and what is installed beside it. */
function installed(files: readonly string[], { version = "1.0.0" } = {}) {
  const root = mkdtempSync(join(tmpdir(), "perigee-native-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const write = (file: string, text = "") => {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  };
  for (const file of files) write(file);
  write("package.json", JSON.stringify({ version: "1.0.0" }));
  const hasPackage = files.some((file) => file.startsWith("beside/"));
  if (hasPackage) write("beside/package.json", JSON.stringify({ version }));
  const resolve = (name: string) => {
    if (!hasPackage) throw new Error(`Cannot find module ${name}`);
    expect(name).toBe("@perigee/native-linux-x64/package.json");
    return join(root, "beside/package.json");
  };
  const find = (name: string) => findNativeFile(name, { root, platform: "linux-x64", resolve });
  return { find, path: (file: string) => join(root, file) };
}

const BUILT = "native/build/linux-x64/libperigee-avx2.so";
const BESIDE = "beside/libperigee-avx2.so";
const GRAMMAR = "native/grammar/prebuilt/linux-x64/libperigee-grammar.so";

test("what was built here comes before what was prebuilt", () => {
  const { find, path } = installed([BUILT, BESIDE]);
  expect(find("avx2")).toBe(path(BUILT));
});

test("without a build the platform's package has the library", () => {
  const { find, path } = installed([BESIDE]);
  expect(find("avx2")).toBe(path(BESIDE));
  expect(find("avx512")).toBeNull();
});

test("a package of another version is not used: its functions may be others", () => {
  const { find } = installed([BESIDE], { version: "1.0.1" });
  expect(find("avx2")).toBeNull();
});

test("the grammar's library comes with a checkout", () => {
  const { find, path } = installed([GRAMMAR]);
  expect(find("grammar")).toBe(path(GRAMMAR));
});

test.runIf(process.platform === "linux")("musl has a remedy of its own", () => {
  expect(nativeRemedy(true)).toMatch(/musl.*apk add g\+\+/);
  expect(nativeRemedy(false)).toMatch(/@perigee\/native-linux-.*apt install g\+\+/);
});
