/** The API reference of a small package: what its pages show, and what is refused. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { apiReference } from "../../tools/api-reference.mjs";

let root = "";
afterEach(() => rmSync(root, { recursive: true }));

/** The pages of a package with these declaration files in dist; `.` and `./part` are exported. */
function pagesOf(declarations: Readonly<Record<string, string>>): Map<string, string> {
  root = mkdtempSync(join(tmpdir(), "perigee-api-"));
  const entry = (path: string) => ({ types: `./dist/${path}`, default: "./dist/index.js" });
  const exports = { ".": entry("index.d.ts"), "./part": entry("part/index.d.ts") };
  writeFileSync(join(root, "package.json"), JSON.stringify({ name: "sample", exports }));
  for (const [path, text] of Object.entries(declarations)) {
    mkdirSync(dirname(join(root, "dist", path)), { recursive: true });
    writeFileSync(join(root, "dist", path), text);
  }
  return new Map(apiReference("Generated.", root) as [string, string][]);
}

const index = `/**
 * sample: counts.
 *
 *   part/   the parts
 *
 * @module
 */
export { Counter, type Mode } from "#part";
`;
const part = `/** Where it counts. */
export type Mode =
/** Upwards. */
{
    readonly up: true;
}
/** Downwards. */
 | {
    readonly up: false;
};
/** What counts. */
export interface Counting {
    /** One more, as the mode says. */
    count(): Mode;
}
/** Counts. */
export declare class Counter implements Counting {
    #private;
    private constructor();
    count(): Mode;
}
`;

test("pages follow exports, and show declarations with their docstrings", () => {
  const pages = pagesOf({ "index.d.ts": index, "part/index.d.ts": part });
  const root = pages.get("docs/api/sample.md") ?? "";
  expect(root).toMatch(/^# sample\n\nGenerated.\n\nsample: counts.\n\n## Classes\n\n### Counter\n/);
  expect(root).toContain("  /** One more, as the mode says. */\n  count(): Mode;\n}");
  expect(root).toContain("/** Downwards. */\n | {\n  readonly up: false;\n};");
  expect(root).toContain("See [Counting](part.md#counting), [Mode](#mode).");
  expect(root).not.toContain("private");
  expect(pages.get("docs/api/part.md")).toContain(
    "[Counter](sample.md#counter), [Mode](sample.md#mode).",
  );
});

test("an export without a docstring is refused", () => {
  const silent = part.replace("/** Counts. */\n", "");
  expect(() => pagesOf({ "index.d.ts": index, "part/index.d.ts": silent })).toThrow(
    /Exports without a docstring:\nsample: Counter/,
  );
});

test("a missing build is refused", () => {
  expect(() => pagesOf({ "index.d.ts": index })).toThrow(/part\/index.d.ts is missing/);
});
