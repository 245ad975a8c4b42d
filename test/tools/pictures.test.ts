/** Pictures of the documents: what `node tools/pictures.mjs` makes, and which pages show. */
import { execFile } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { settle } from "../../tools/generated.mjs";
import { partsOf } from "../charts/svg-parts.ts";
import { clipped, overlaps, textBoxes } from "../charts/text-boxes.ts";
import { built } from "../cli/perigee.ts";
import { isBuildCurrent } from "../support/from-build.ts";

const files = readdirSync("docs", { recursive: true, encoding: "utf8" }).map((file) =>
  join("docs", file),
);
const pages = ["README.md", ...files.filter((file) => file.endsWith(".md"))];
const pictures = files.filter((file) => file.endsWith(".svg"));

/** Each picture that a page shows: the page, the file, and what it says instead. */
const shown = pages.flatMap((page) =>
  [...readFileSync(page, "utf8").matchAll(/<img ([^>]*)>/g)].map(([, attributes = ""]) => ({
    page,
    file: normalize(join(dirname(page), /src="([^"]*)"/.exec(attributes)?.[1] ?? "")),
    alt: /alt="([^"]*)"/.exec(attributes)?.[1] ?? "",
  })),
);

test("pages show pictures that are there, and say in words what is to be seen", () => {
  expect(shown.length).toBeGreaterThan(30);
  for (const { page, file, alt } of shown) {
    expect(existsSync(file), `${page}: ${file}`).toBe(true);
    expect(alt.length, `${page}: ${file}`).toBeGreaterThan(10);
  }
});

test("each picture is shown by a page, has no markup beyond a chart's, and no text is covered", () => {
  expect(pictures.length).toBeGreaterThan(30);
  for (const picture of pictures) {
    expect(shown.map(({ file }) => file)).toContain(picture);
    const svg = readFileSync(picture, "utf8");
    expect(svg.length, picture).toBeLessThan(30_000);
    expect(svg).toContain("prefers-color-scheme:dark");
    expect(partsOf(svg).texts.length, picture).toBeGreaterThan(5);
    expect(overlaps(textBoxes(svg)), picture).toEqual([]);
    expect(clipped(svg), picture).toEqual([]);
  }
});

const current = built && isBuildCurrent();

test.runIf(current)(
  "pictures are those of the numbers in bench/results (needs a build)",
  async () => {
    const script = ["tools/pictures.mjs", "--check"];
    const { stderr } = await promisify(execFile)(process.execPath, script);
    expect(stderr).toBe("");
  },
);

describe("generated files", () => {
  const root = mkdtempSync(join(tmpdir(), "perigee-generated-"));
  afterAll(() => rmSync(root, { recursive: true }));
  const told: string[] = [];
  const documents = new Map([["docs/a/new.svg", "new"]]);
  const folders = [{ path: "docs/a", ends: ".svg" }];
  const all = { documents, folders, remedy: "run it", tell: (line: string) => told.push(line) };

  test("that are missing, old or of no source are named by a check, which changes nothing", () => {
    mkdirSync(join(root, "docs/a"), { recursive: true });
    writeFileSync(join(root, "docs/a/gone.svg"), "");
    writeFileSync(join(root, "docs/a/page.md"), "");
    expect(settle(root, { ...all, check: true })).toBe(1);
    expect(told).toEqual([
      "docs/a/new.svg is out of date: run it",
      "docs/a/gone.svg is out of date: run it",
    ]);
    expect(readdirSync(join(root, "docs/a"))).toEqual(["gone.svg", "page.md"]);
  });

  test("are written, and what has no source goes", () => {
    expect(settle(root, { ...all, check: false })).toBe(0);
    expect(readdirSync(join(root, "docs/a")).sort()).toEqual(["new.svg", "page.md"]);
    expect(settle(root, { ...all, check: true })).toBe(0);
  });
});
