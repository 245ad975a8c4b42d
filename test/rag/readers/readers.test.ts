import { afterAll, describe, expect, it } from "vitest";
import { ReaderProcess, type ReadJob } from "#rag/readers";
import type { SourceDocument } from "#rag/texts";

const process = new ReaderProcess({ seconds: 20, memoryBytes: 2 ** 30 });
afterAll(() => process.close());

/** What a file of some bytes has. */
async function read(name: string, content: string | Uint8Array): Promise<SourceDocument[]> {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  const job: ReadJob = {
    ...{ id: name, name, path: null, bytes, mediaType: null, bytesMax: 2 ** 26 },
  };
  const found: SourceDocument[] = [];
  for await (const one of process.read(job, () => true)) {
    if ("problem" in one) throw new Error(one.problem);
    found.push(one);
  }
  return found;
}

const textsOf = (documents: readonly SourceDocument[]) =>
  documents.flatMap(({ sections }) => sections.map(({ text }) => text));

describe("text", () => {
  it("[RG34] is decoded by its byte order mark, as UTF-8, or as windows-1252", async () => {
    const text = "Grüße, 世界\nline";
    const wide = Buffer.from(`\ufeff${text}`, "utf16le");
    const cases: readonly (readonly [Uint8Array, string, object])[] = [
      [Buffer.from(text), text, {}],
      [Buffer.from(`\ufeff${text}`), text, {}],
      [wide, text, { encoding: "utf-16le" }],
      [Buffer.from(wide).swap16(), text, { encoding: "utf-16be" }],
      [Buffer.from("plain Latin text", "utf16le"), "plain Latin text", { encoding: "utf-16le" }],
      [
        Buffer.from("Gr\u00fc\u00dfe \u0096 x", "latin1"),
        "Grüße – x",
        { encoding: "windows-1252" },
      ],
      [Buffer.concat([Buffer.from(text), Buffer.of(0xff)]), `${text}\ufffd`, {}],
    ];
    for (const [bytes, expected, attributes] of cases) {
      const found = await read("a.txt", bytes);
      expect(textsOf(found)).toEqual([expected]);
      expect(found[0]?.attributes).toEqual({ kind: "text", ...attributes });
    }
  });

  it("[RG34] is refused where it is binary", async () => {
    for (const bytes of [
      new Uint8Array(9),
      Buffer.from("\x01\x02\x03\x04abc"),
      Buffer.of(80, 75, 3, 4, 0),
    ])
      await expect(read("a.txt", bytes)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});

describe("Markdown", () => {
  it("[RG38] has a section below each heading, at its line", async () => {
    const text = [
      ...[
        "---",
        "title: x",
        "---",
        "before",
        "",
        "# One #",
        "1",
        "## *Two*",
        "",
        "2",
        "```",
        "# no",
      ],
      ...[
        "```",
        "> # quoted",
        "",
        "Three",
        "-----",
        "",
        "3",
        "# Four",
        "## Five",
        "5",
        "## Six",
        "",
      ],
    ].join("\n");
    const [document] = await read("a.md", text);
    expect(
      document?.sections.map(({ text, line, headings }) => [text.trim(), line, headings]),
    ).toEqual([
      ["---\ntitle: x\n---", 1, []],
      ["before", 4, []],
      ["1", 6, ["One"]],
      ["2\n```\n# no\n```\n> # quoted", 8, ["One", "*Two*"]],
      ["3", 17, ["One", "Three"]],
      ["5", 21, ["Four", "Five"]],
      ["## Six", 23, ["Four"]],
    ]);
  });

  it("[RG38] keeps a heading of any length as text, and short as a heading", async () => {
    const [document] = await read("a.md", `# ${"long ".repeat(100)}\n\ntext\n\n## Inner\n\nmore\n`);
    expect(document?.sections.map(({ headings }) => headings.map(({ length }) => length))).toEqual([
      [],
      [200, 5],
    ]);
    expect(document?.sections[0]?.text).toContain("long ".repeat(99));
  });
});

describe("long texts", () => {
  it("[RG30] come in sections of bounded length, with their lines", async () => {
    const lines = Array.from({ length: 30_000 }, (_, at) => `line ${at + 1}`);
    const [document] = await read("a.txt", lines.join("\n"));
    const sections = document?.sections ?? [];
    expect(sections.length).toBeGreaterThan(4);
    expect(sections.map(({ text }) => text).join("")).toBe(lines.join("\n"));
    for (const { text, line } of sections) {
      expect(text.length).toBeLessThanOrEqual(2 ** 16);
      expect(text.startsWith(`line ${line}\n`)).toBe(true);
    }
    const [single] = await read("a.txt", "😀".repeat(50_000));
    expect(single?.sections.every(({ text }) => text.isWellFormed())).toBe(true);
  });
});
