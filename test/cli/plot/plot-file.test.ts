import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Chart } from "#charts";
import { plotPath, plotTo } from "../../../src/cli/plot/plot-file.ts";
import { scratchFolder } from "../../checkpoint/scratch-folder.ts";

const chart: Chart = { kind: "bars", title: "t", series: ["a"], rows: [] };

test("a picture is written at the end; until then an old one stays, and no new one is there", () => {
  const scratch = scratchFolder();
  const [fresh, old] = [join(scratch, "fresh.svg"), join(scratch, "old.svg")];
  writeFileSync(old, "old");
  const writers = [fresh, old].map((path) => plotTo(path));
  expect(existsSync(fresh)).toBe(false);
  expect(readFileSync(old, "utf8")).toBe("old");
  for (const write of writers) write(() => [chart]);
  expect(readFileSync(fresh, "utf8")).toMatch(/^<svg .*<\/svg>\n$/s);
  expect(readFileSync(old, "utf8")).toBe(readFileSync(fresh, "utf8"));
});

test("a file that cannot be written is refused before the run, with the reason", () => {
  const scratch = scratchFolder();
  const folder = join(scratch, "folder.svg");
  mkdirSync(folder);
  const file = join(scratch, "file");
  writeFileSync(file, "");
  expect(() => plotTo(folder)).toThrow(/^Cannot write .*folder\.svg: .*--plot.*it is a folder$/);
  expect(() => plotTo(join(scratch, "none", "a.svg"))).toThrow("its folder does not exist");
  expect(() => plotTo(join(file, "a.svg"))).toThrow("what should be its folder is a file");
});

test("without a file nothing is drawn", () => {
  plotTo(undefined)(() => {
    throw new Error("drawn");
  });
});

test("a name must say that it is SVG, but for devices", () => {
  expect(plotPath("a/b.SVG")).toBe("a/b.SVG");
  expect(plotPath("/dev/null")).toBe("/dev/null");
  for (const path of ["a.png", "svg", "", "a.svg/"]) {
    expect(() => plotPath(path)).toThrow("Wanted a file that ends in .svg");
  }
});
