import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { libraryCandidates } from "../../../src/devices/cuda/driver/library-search.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "perigee-search-"));
});
afterEach(() => rmSync(root, { recursive: true }));

function touch(...paths: readonly string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), "");
  }
}

const nvrtc = { stem: "libnvrtc", versions: [".so.13", ".so.12"] };

test("the named toolkit comes first, then the loader, toolkits and Python's folders", () => {
  touch(
    "home/lib64/libnvrtc.so.12",
    "local/cuda-12.4/lib64/libnvrtc.so.12",
    "local/cuda-13.0/lib64/libnvrtc.so.13",
    "env/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
    "env/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
  );
  const found = libraryCandidates(nvrtc, {
    home: join(root, "home"),
    toolkitRoot: join(root, "local"),
    pythonRoots: [join(root, "env")],
  });
  const packages = join(root, "env/lib/python3.12/site-packages/nvidia");
  expect(found).toEqual([
    join(root, "home/lib64/libnvrtc.so.12"),
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    join(root, "local/cuda-13.0/lib64/libnvrtc.so.13"),
    join(root, "local/cuda-12.4/lib64/libnvrtc.so.12"),
    join(packages, "cu13/lib/libnvrtc.so.13"),
    join(packages, "cuda_nvrtc/lib/libnvrtc.so.12"),
  ]);
});

test("in one folder the newest wanted version comes first, and its other half is none", () => {
  touch(
    "home/lib64/libnvrtc.so.12",
    "home/lib64/libnvrtc.so.13",
    "home/lib64/libnvrtc.so",
    "home/lib64/libnvrtc-builtins.so.13.0",
  );
  const settings = { home: join(root, "home"), toolkitRoot: root };
  const files = libraryCandidates(nvrtc, settings).filter((path) => path.includes("/"));
  expect(files).toEqual(
    ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].map((name) =>
      join(root, "home/lib64", name),
    ),
  );
});

test("folders that do not exist leave the names for the loader", () => {
  const settings = { home: "/nowhere", pythonRoots: ["/nowhere"], toolkitRoot: "/nowhere" };
  expect(libraryCandidates(nvrtc, settings)).toEqual(["libnvrtc.so.13", "libnvrtc.so.12"]);
});
