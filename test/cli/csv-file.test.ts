import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { CsvFile } from "../../src/cli/csv-file.ts";

const folder = mkdtempSync(join(tmpdir(), "perigee-csv-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("cells are quoted where they must be; null is empty, numbers have three decimals", () => {
  const path = join(folder, "cells.csv");
  writeFileSync(path, "older, and longer than what comes\n".repeat(9));
  const csv = CsvFile.open(path, ["name", "ms"]);
  csv.write(['a "b", c', 1 / 3]);
  csv.write(["two\nlines", null]);
  csv.write([null, 1e6]);
  csv.close();
  expect(readFileSync(path, "utf8")).toBe('name,ms\n"a ""b"", c",0.333\n"two\nlines",\n,1000000\n');
});

test("rows are written as they come, not kept until the end", () => {
  const path = join(folder, "many.csv");
  const csv = CsvFile.open(path, ["row", "text"]);
  const text = "x".repeat(100);
  for (let row = 0; row < 10_000; row++) csv.write([row, text]);
  expect(statSync(path).size).toBeGreaterThan(900_000);
  csv.close();
  const lines = readFileSync(path, "utf8").split("\n");
  expect(lines).toHaveLength(10_002);
  expect(lines.slice(1, -1).map((line) => Number(line.split(",")[0]))).toEqual(
    Array.from({ length: 10_000 }, (_, row) => row),
  );
});

test("a file that cannot be written is an IO error that says so", () => {
  expect(() => CsvFile.open(join(folder, "none", "a.csv"), ["a"])).toThrow(
    expect.objectContaining({ code: "IO", message: expect.stringContaining("for --csv") }),
  );
});

test.skipIf(process.platform !== "linux")(
  "a full disk is an IO error, and ends the writing",
  () => {
    const csv = CsvFile.open("/dev/full", ["a"]);
    expect(() => csv.close()).toThrow(expect.objectContaining({ code: "IO" }));
  },
);
