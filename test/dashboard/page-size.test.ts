import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";

const SOURCE = "dashboard/src";
const BUILT = "dist/dashboard";

function filesBelow(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : [path];
  });
}

function isBuilt(): boolean {
  try {
    return statSync(join(BUILT, "index.html")).isFile();
  } catch {
    return false;
  }
}

test.skipIf(!isBuilt())("the whole page is at most 150 KB, gzipped (needs npm run build)", () => {
  const files = filesBelow(BUILT);
  expect(files.length).toBeGreaterThanOrEqual(3);
  const bytes = files.reduce((sum, file) => sum + gzipSync(readFileSync(file)).length, 0);
  expect(bytes).toBeLessThan(150_000);
});

test.skipIf(!isBuilt())("the built page has no inline script, and names no other host", () => {
  const html = readFileSync(join(BUILT, "index.html"), "utf8");
  expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|\bon\w+=|javascript:|<style/i);
  expect(html).not.toMatch(/https?:\/\//);
});

test("nothing in the page makes markup of text", () => {
  for (const file of filesBelow(SOURCE)) {
    const text = readFileSync(file, "utf8");
    expect([
      file,
      text.match(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/),
    ]).toEqual([file, null]);
    expect([file, text.match(/new Function|DOMParser|createContextualFragment|srcdoc/)]).toEqual([
      file,
      null,
    ]);
  }
});
