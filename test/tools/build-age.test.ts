import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { unbuiltFile } from "../../tools/build-age.mjs";

test("a file that changed after the build, or has none, is found; others are not", () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-build-age-"));
  try {
    const write = (path: string, seconds: number) => {
      const file = join(folder, path);
      mkdirSync(join(file, ".."), { recursive: true });
      writeFileSync(file, "");
      utimesSync(file, seconds, seconds);
    };
    const find = () => unbuiltFile(join(folder, "src"), join(folder, "dist"));
    write("src/room/one.ts", 100);
    write("src/room/SPEC.md", 300);
    expect(find()).toBe(join("room", "one.ts"));
    write("dist/room/one.js", 200);
    expect(find()).toBeNull();
    write("src/room/one.ts", 300);
    expect(find()).toBe(join("room", "one.ts"));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
