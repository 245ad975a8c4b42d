import { readFileSync } from "node:fs";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { ReaderProcess, type ReadJob, type ReadProblem } from "#rag/readers";
import type { SourceDocument } from "#rag/texts";
import { pdf } from "../../support/small-pdf.ts";

const process = new ReaderProcess({ seconds: 20, memoryBytes: 2 ** 30 });
afterAll(() => process.close());

/** What a file of some bytes has, and what could not be read of it. */
async function contents(
  name: string,
  content: string | Uint8Array,
): Promise<(SourceDocument | ReadProblem)[]> {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  const job: ReadJob = {
    ...{ id: name, name, path: null, bytes, mediaType: null, bytesMax: 2 ** 26 },
  };
  const found: (SourceDocument | ReadProblem)[] = [];
  for await (const one of process.read(job, () => true)) found.push(one);
  return found;
}

/** The documents of a file that can be read as a whole. */
async function read(name: string, content: string | Uint8Array): Promise<SourceDocument[]> {
  return (await contents(name, content)).map((one) => {
    if ("problem" in one) throw new Error(one.problem);
    return one;
  });
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

describe("HTML", () => {
  it("[RG39] has what a page shows below its headings, of any markup", async () => {
    const [document] = await read(
      "a.html",
      `<!DOCTYPE html><title>The &amp; title</title><style>x{}</style>
      <nav><ul><li>One</li><li><a href=x>Two</a></li></ul></nav><h1>Top <em>level</em></h1><p>First
      para&nbsp;graph.<br>second <b>li</b>ne</p><script>no()</script><h2>Empty</h2><h2>Inner</h2>
      <table><tr><th>a<th>b</tr><tr><td>1</td><td>2</td></tr></table><pre>  keep
    this</pre></b></p><img alt="picture"><svg><text>no</text></svg><h3>Last</h3>`,
    );
    expect(document?.attributes).toEqual({ kind: "html", title: "The & title" });
    expect(document?.sections.map(({ headings, text }) => [headings, text])).toEqual([
      [[], "- One\n- Two"],
      [["Top level"], "First para\u00a0graph.\nsecond line"],
      [["Top level"], "Empty"],
      [["Top level", "Inner"], "a | b\n1 | 2\n\n  keep\n    this\n\npicture"],
      [["Top level", "Inner"], "Last"],
    ]);
    expect(document?.sections.every(({ line }) => line === null)).toBe(true);
  });

  it("[RG39] is decoded as it declares", async () => {
    const page = "<meta http-equiv=x content='text/html; charset=windows-1251'><p>";
    const bytes = Buffer.concat([Buffer.from(page), Buffer.of(0xcf, 0xf0, 0xe8)]);
    expect(textsOf(await read("a.html", bytes))).toEqual(["При"]);
  });
});

describe("PDF", () => {
  it("[RG40] has a section for each page with text", async () => {
    const [document] = await read("a.pdf", pdf(["First page", "", "Third (page)"]));
    expect(document?.sections).toEqual([
      { text: "First page", line: null, page: 1, headings: [] },
      { text: "Third (page)", line: null, page: 3, headings: [] },
    ]);
  });

  it("[RG40] is known by its first bytes, and refused where it does not open", async () => {
    expect(textsOf(await read("unnamed", pdf(["text"])))).toEqual(["text"]);
    await expect(read("a.pdf", "%PDF-1.7\nnothing")).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining('Cannot read "a.pdf": it must be a PDF that opens'),
    });
  });
});

describe("rows", () => {
  it("[RG41] of JSON lines are documents, named by themselves or by their content", async () => {
    const rows = await contents(
      "a.jsonl",
      '{"id":"x#1","text":"hello","title":"T","n":3,"deep":{"a":1}}\n\nnot json\n"just text"\n' +
        '{"a":"b"}\n{"a":"b"}\n[1]\n{}',
    );
    expect(rows).toMatchObject([
      {
        ...{ id: "a.jsonl#x%231", attributes: { kind: "jsonl", id: "x#1", title: "T", n: 3 } },
        sections: [{ text: 'hello\ndeep: {"a":1}', line: 1, lastLine: 1, headings: ["T"] }],
      },
      { id: "a.jsonl#line-3", problem: expect.stringContaining("Cannot read line 3 of") },
      { id: expect.stringMatching(/#[0-9a-f]{16}$/), sections: [{ text: "just text", line: 4 }] },
      { attributes: { a: "b" }, sections: [{ text: "a: b", line: 5 }] },
      { id: expect.stringMatching(/#[0-9a-f]{16}~2$/), sections: [{ text: "a: b", line: 6 }] },
      { id: "a.jsonl#line-7" },
      { sections: [] },
    ]);
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
  });

  it("[RG34] have no halves of characters, which no store could write", async () => {
    const [row] = (await contents(
      "a.jsonl",
      '{"id":"\\ud800","text":"a\\udc00b","t":"\\ud801"}',
    )) as SourceDocument[];
    expect(row).toMatchObject({
      ...{ id: "a.jsonl#\ufffd", sections: [{ text: "a\ufffdb" }] },
      attributes: { id: "\ufffd", t: "\ufffd" },
    });
  });

  it("[RG41] keep their names when rows come before them", async () => {
    const before = await contents("a.jsonl", '{"a":1}\n{"a":2}');
    const after = await contents("a.jsonl", '{"a":0}\n{"a":1}\n{"a":2}');
    expect(after.slice(1).map(({ id }) => id)).toEqual(before.map(({ id }) => id));
  });

  it("[RG41] of tables have a line for each cell, with quotes and any separator", async () => {
    const table = 'name;age;note\r\n"Ada; L.";36;"multi\nline"\n\nBob;7\nCarl;8;x;extra\n';
    const rows = (await contents("a.csv", table)) as SourceDocument[];
    expect(rows.map(({ sections: [section] }) => [section?.line, section?.lastLine])).toEqual([
      [2, 3],
      [5, 5],
      [6, 6],
    ]);
    expect(textsOf(rows)).toEqual([
      "name: Ada; L.\nage: 36\nnote: multi\nline",
      "name: Bob\nage: 7",
      "name: Carl\nage: 8\nnote: x\ncolumn_4: extra",
    ]);
    expect(rows[1]?.attributes).toEqual({ kind: "csv", name: "Bob", age: "7" });
    await expect(contents("a.csv", 'a,b\n"open')).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });
});

describe("source code", () => {
  const long = "step(); ".repeat(150);

  it("[RG42] has a section for each long function and method, below what encloses it", async () => {
    const cases: Readonly<Record<string, readonly [string, unknown]>> = {
      "a.ts": [
        `import x from "x";\n\n/** Of A. */\nexport class A {\n  a = 1;\n\n  // Of m.\n  m() {${long}}\n\n` +
          `  #n() {}\n}\n\nexport const f = () => {${long}};\nf();\n`,
        [
          [1, []],
          [3, ["A"]],
          [7, ["A", "m"]],
          [10, ["A", "#n"]],
          [13, ["f"]],
          [14, []],
        ],
      ],
      "a.py": [
        `import os\n\n# Of A.\n@dec\nclass A(B):\n    x = 1\n\n    def m(self):\n        ${long}\n\n` +
          `def f():\n    ${long}\n`,
        [
          [1, []],
          [3, ["A"]],
          [8, ["A", "m"]],
          [11, ["f"]],
        ],
      ],
      "a.cpp": [
        `namespace n {\nclass A { int x; };\nint A::m() {${long}}\n}\nint *main() {${long}}\n`,
        [
          [1, ["n"]],
          [3, ["n", "A::m"]],
          [5, ["main"]],
        ],
      ],
      "a.rs": [
        `impl Foo for Bar {\n  fn m(&self) {${long}}\n}\npub fn f() {${long}}\n`,
        [
          [1, ["impl Foo for Bar"]],
          [2, ["impl Foo for Bar", "m"]],
          [4, ["f"]],
        ],
      ],
      "A.java": [
        `package a;\npublic class A {\n  int x;\n  int m() {${long}}\n  void n() {}\n}\n`,
        [
          [1, []],
          [2, ["A"]],
          [4, ["A", "m"]],
          [5, ["A", "n"]],
        ],
      ],
      "a.go": [
        `package a\n\nfunc (r *R) M() {${long}}\n\nfunc F() {${long}}\n`,
        [
          [1, []],
          [3, ["M"]],
          [5, ["F"]],
        ],
      ],
    };
    for (const [name, [source, expected]] of Object.entries(cases)) {
      const [document] = await read(name, source);
      const places = document?.sections.map(({ line, headings }) => [line, headings]);
      expect(places, name).toEqual(expected);
    }
  });

  it("[RG30] loses nothing of any code, also of broken code", async () => {
    const pieces = fc.constantFrom(
      ...["class A {", "}", "m() {", "function f(", ")", "// c", "\n", "  ", '"', "`", "/*", "*/"],
      ...[long, "export ", "default ", "import x;", "@dec\n", "def f():\n", "fn f() {", "#if 1\n"],
    );
    const code = fc.array(pieces, { maxLength: 60 }).map((parts) => parts.join(""));
    const name = fc.constantFrom("a.ts", "a.jsx", "a.py", "a.cpp", "a.rs", "A.java", "a.go");
    const property = fc.asyncProperty(name, code, async (file, source) => {
      const [document] = await read(file, source);
      const text = textsOf(document === undefined ? [] : [document]).join("");
      expect(text.replace(/\s/g, "")).toBe(source.replace(/\s/g, ""));
    });
    await fc.assert(property, { numRuns: 200 });
  });

  it("is read from the repository's own files, every line in its place", async () => {
    const source = readFileSync("src/rag/readers/code-reader.ts", "utf8");
    const [document] = await read("code-reader.ts", source);
    const lines = source.split("\n");
    for (const { text, line } of document?.sections ?? []) {
      const [first = "", second] = text.split("\n");
      expect(lines[(line ?? 0) - 1]).toContain(first);
      if (second !== undefined) expect(lines[line ?? 0]).toContain(second);
    }
    const inner = document?.sections.map(({ headings }) => headings.join("."));
    expect(inner).toContain("Outline.addMembers");
  });
});
