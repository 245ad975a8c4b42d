/** Files that a stranger may have, each of which must be stored, or named with a reason. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { deflateSync, gzipSync } from "node:zlib";
import { pdf, pdfOf } from "../support/small-pdf.ts";

/** How large the large ones are. */
export interface OddSizes {
  /** Length of files of a single line. */
  readonly lineBytes: number;
  /** How deep nested files are, and how many parts wide ones have. */
  readonly depth: number;
  /** What a compressed stream of a PDF expands to. */
  readonly bombBytes: number;
  /** Ordinary and slightly broken files beside these. */
  readonly others: number;
}

/** What became of a file. */
export type Fate =
  /** In the corpus. */
  | "stored"
  /** Read, without text. */
  | "empty"
  /** In the report, with a reason. */
  | "named"
  /** In the corpus or in the report: within its limits or not. */
  | "either";

type Content = string | Uint8Array;

const ENDINGS = ["md", "txt", "html", "pdf", "jsonl", "csv", "ts", "py", "rs", "bin", ""];

/** Makes all files below a folder; tells the fate of each by name. */
export function makeOddDocuments(base: string, sizes: OddSizes): Map<string, Fate> {
  const fates = new Map<string, Fate>();
  const add = (fate: Fate, name: string, content: Content) => {
    mkdirSync(join(base, name, ".."), { recursive: true });
    writeFileSync(join(base, name), content);
    fates.set(name, fate);
  };
  for (const [name, [fate, content]] of Object.entries({
    ...emptyFiles(),
    ...encodings(),
    ...htmlFiles(sizes),
    ...markdownFiles(sizes),
    ...pdfFiles(sizes),
    ...dataFiles(sizes),
    ...codeFiles(sizes),
    ...longLines(sizes),
  })) {
    add(fate, name, content);
  }
  for (const name of strangeNames()) add("stored", `names/${name}`, "text");
  for (const [name, fate] of specialFiles(base)) fates.set(name, fate);
  for (const [name, fate, content] of mutations(sizes.others)) add(fate, name, content);
  return fates;
}

type Files = Record<string, readonly [Fate, Content]>;

function emptyFiles(): Files {
  const files: Files = {};
  for (const ending of ENDINGS.filter((one) => one !== "pdf")) {
    files[`empty/nothing.${ending}`] = ["empty", ""];
    if (ending !== "csv") files[`empty/blank.${ending}`] = ["empty", " \n\t\r\n \n"];
  }
  files["empty/nothing.pdf"] = ["named", ""];
  return files;
}

function encodings(): Files {
  const text = "Grüße aus Zürich, 世界 and more words";
  const wide = Buffer.from(`\ufeff${text}`, "utf16le");
  return {
    "encodings/utf16le.txt": ["stored", wide],
    "encodings/utf16be.md": ["stored", Buffer.from(wide).swap16()],
    "encodings/utf16-odd.txt": ["stored", wide.subarray(0, wide.length - 1)],
    "encodings/utf16-half.txt": ["stored", Buffer.from("\ufeffab\ud800cd", "utf16le")],
    "encodings/utf16-plain.txt": ["stored", Buffer.from("plain words only", "utf16le")],
    "encodings/latin.txt": ["stored", Buffer.from("Grüße aus Zürich", "latin1")],
    "encodings/latin.html": ["stored", Buffer.from("<p>Grüße", "latin1")],
    "encodings/broken.md": ["stored", Buffer.from([...Buffer.from(text), 0xff, 0xc3, 0x28, 0x80])],
    "encodings/mark.txt": ["empty", Buffer.of(0xef, 0xbb, 0xbf)],
    "encodings/mark16.txt": ["empty", Buffer.of(0xff, 0xfe)],
    "encodings/zeros.txt": ["named", new Uint8Array(1000)],
    "encodings/gzip.txt": ["named", gzipSync("text ".repeat(1000))],
    "encodings/package.docx": [
      "named",
      Buffer.from("PK\x03\x04\x14\0\0\0\x08\0".repeat(50), "latin1"),
    ],
    "encodings/escapes.log": [
      "stored",
      "\u001b[31mred\u001b[0m and \u0007 a bell in some long text",
    ],
  };
}

function htmlFiles({ depth }: OddSizes): Files {
  return {
    "html/nested.html": ["either", `${"<div>".repeat(depth)}text`],
    "html/nested-inline.html": ["either", `${"<b><i>".repeat(depth)}text`],
    "html/closed.html": [
      "either",
      `${"<p><div>".repeat(depth)}text${"</div></b></p>".repeat(depth)}`,
    ],
    "html/open-ends.html": ["either", `${"<".repeat(depth)}text`],
    "html/attributes.html": ["either", `<p ${"a='1' ".repeat(depth)}>text`],
    "html/headings.html": ["either", "<h1>a</h1>b".repeat(depth)],
    "html/deep-headings.html": ["either", `<h1>${"word ".repeat(depth)}</h1>text`],
    "html/entities.html": ["either", `${"&amp;".repeat(depth)}${"&".repeat(depth)}&#xffffffff;`],
    "html/comment.html": ["either", `text<!--${"-".repeat(depth)}`],
    "html/script.html": ["empty", `<script>${"x();".repeat(depth)}`],
    "html/cells.html": ["either", `<table><tr>${"<td>a".repeat(depth)}`],
    "html/charset.html": ["stored", "<meta charset=no-such-thing><p>text"],
  };
}

function markdownFiles({ depth }: OddSizes): Files {
  return {
    "markdown/quotes.md": ["either", `${">".repeat(depth)}text`],
    "markdown/lists.md": ["either", `${"- ".repeat(depth)}text`],
    "markdown/brackets.md": ["either", `${"[".repeat(depth)}text`],
    "markdown/marks.md": ["either", `${"*_".repeat(depth)}text`],
    "markdown/ticks.md": ["either", "`".repeat(depth)],
    "markdown/headings.md": ["either", "# a\n\nb\n".repeat(depth)],
    "markdown/rising.md": ["either", "###### a\n##### b\n# c\n".repeat(depth)],
    "markdown/setext.md": ["either", `${"a\n".repeat(depth)}===`],
    "markdown/table.md": ["either", `|${"a|".repeat(depth)}\n|${"-|".repeat(depth)}\n`],
    "markdown/references.md": ["either", "[a]: b\n".repeat(depth)],
    "markdown/metadata.md": ["stored", `---\n${"a: b\n".repeat(1000)}`],
    "markdown/indents.md": [
      "either",
      Array.from({ length: 500 }, (_, at) => `${" ".repeat(at)}- a\n`).join(""),
    ],
  };
}

function pdfFiles({ depth, bombBytes }: OddSizes): Files {
  const whole = Buffer.from(pdf(["one page", "two pages"]));
  const text = whole.toString("latin1");
  const bytes = (changed: string) => Buffer.from(changed, "latin1");
  const bomb = deflateSync(Buffer.alloc(bombBytes, "BT (a) Tj ET\n"), { level: 9 });
  return {
    "pdf/no-table.pdf": ["either", bytes(text.replace(/xref[\s\S]*trailer/, "trailer"))],
    "pdf/wrong-table.pdf": [
      "either",
      bytes(text.replaceAll(/^\d{10} 00000 n/gm, "0000000007 00000 n")),
    ],
    "pdf/truncated.pdf": ["either", whole.subarray(0, whole.length >> 1)],
    "pdf/start.pdf": ["named", "%PDF-1.7"],
    "pdf/circle.pdf": ["either", bytes(text.replace("/Kids [4 0 R", "/Kids [2 0 R"))],
    "pdf/self.pdf": ["either", bytes(text.replace("/Pages 2 0 R", "/Pages 1 0 R"))],
    "pdf/count.pdf": ["either", bytes(text.replace("/Count 2", "/Count 99999999"))],
    "pdf/nested.pdf": [
      "either",
      bytes(text.replace("/Count 2", `/X ${"[".repeat(depth)} /Count 2`)),
    ],
    "pdf/length.pdf": ["either", bytes(text.replaceAll(/\/Length \d+/g, "/Length 999999999"))],
    "pdf/bomb.pdf": ["either", pdfOf([bomb])],
    "pdf/zeros.pdf": ["either", pdfOf([deflateSync(Buffer.alloc(bombBytes))])],
    "pdf/html.pdf": ["named", "<html><p>no PDF"],
  };
}

function dataFiles({ depth }: OddSizes): Files {
  return {
    "data/nested.jsonl": ["named", `${"[".repeat(depth)}\n${'{"a":'.repeat(depth)}`],
    "data/nested-whole.jsonl": ["either", `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`],
    "data/names.jsonl": ["stored", '{"__proto__":1,"constructor":"x","text":"words"}'],
    "data/wide.jsonl": [
      "either",
      JSON.stringify(Object.fromEntries(Array.from({ length: depth }, (_, at) => [`k${at}`, at]))),
    ],
    "data/broken.jsonl": ["named", "{not json}"],
    "data/open-quote.csv": ["named", `a,b\n"${"x,".repeat(depth)}`],
    "data/columns.csv": ["either", `${"a,".repeat(depth)}\n${"1,".repeat(depth)}`],
    "data/rows.csv": ["either", `a\n${"1\n".repeat(Math.min(depth, 3000))}`],
    "data/quotes.csv": ["either", `a,b\n${'"'.repeat(1001)}`],
    "data/nested.json": ["stored", "[".repeat(depth)],
  };
}

function codeFiles({ depth }: OddSizes): Files {
  const files: Files = {};
  for (const ending of ["ts", "tsx", "js", "py", "cpp", "rs", "java", "go"]) {
    files[`code/braces.${ending}`] = ["either", "{".repeat(depth)];
    files[`code/calls.${ending}`] = ["either", `${"f(".repeat(depth)}1`];
    files[`code/classes.${ending}`] = ["either", "class A {\n".repeat(depth)];
    files[`code/open.${ending}`] = ["either", `x = "${"a".repeat(depth)}\n\`\${`];
    files[`code/noise.${ending}`] = [
      "either",
      noise(depth, 7).toString("latin1").replaceAll("\0", " "),
    ];
  }
  return files;
}

function longLines({ lineBytes }: OddSizes): Files {
  const files: Files = {};
  for (const ending of ["txt", "md", "ts", "html", "json"]) {
    files[`long/words.${ending}`] = ["either", Buffer.alloc(lineBytes, "several words of a line ")];
  }
  files["long/letters.txt"] = ["either", Buffer.alloc(lineBytes, "x")];
  files["long/spaces.txt"] = ["empty", Buffer.alloc(lineBytes, " ")];
  files["long/newlines.md"] = ["either", Buffer.alloc(lineBytes, "\n")];
  files["long/row.jsonl"] = ["either", `{"text":"${"several words ".repeat(lineBytes / 14)}"}`];
  return files;
}

function strangeNames(): string[] {
  const names = [
    "a b.md",
    "-rf.md",
    "a\nb.md",
    "a\u001b[31m.md",
    "\u202egnp.md",
    "ü.md",
    "u\u0308.md",
  ];
  names.push("😀.md", "'\"`$(x).md", "a#b.md", "a%00.md", "{a,b}.md", "[a].md", "*.md", "a\\b.md");
  names.push(`${"n".repeat(250)}.md`, "CON.md", "~.md", "a..md");
  return names;
}

/** Links, pipes, and what cannot be opened. */
function specialFiles(base: string): [string, Fate][] {
  const folder = join(base, "special");
  mkdirSync(join(folder, "loop"), { recursive: true });
  symlinkSync("..", join(folder, "loop/up"));
  symlinkSync("self.md", join(folder, "self.md"));
  symlinkSync("/dev/zero", join(folder, "zero.txt"));
  symlinkSync("missing.md", join(folder, "dangling.md"));
  execFileSync("mkfifo", [join(folder, "pipe.md")]);
  const fates: [string, Fate][] = ["loop/up", "self.md", "zero.txt", "dangling.md", "pipe.md"].map(
    (name) => [`special/${name}`, "named"],
  );
  // The superuser reads everything.
  if (process.getuid?.() !== 0) {
    writeFileSync(join(folder, "closed.md"), "text");
    chmodSync(join(folder, "closed.md"), 0);
    mkdirSync(join(folder, "closed"), { mode: 0 });
    fates.push(["special/closed.md", "named"], ["special/closed", "named"]);
  }
  if (process.platform === "linux") {
    writeFileSync(Buffer.concat([Buffer.from(`${folder}/bytes-`), Buffer.of(0xff, 0xfe)]), "text");
    fates.push(["special/bytes-\ufffd\ufffd", "named"]);
  }
  return fates;
}

const SEEDS: readonly (readonly [string, Content])[] = [
  ["md", "# Title\n\nSome *words* of text.\n\n- a\n- b\n\n```js\ncode();\n```\n"],
  ["html", "<html><body><h1>Title</h1><p>Some <b>words</b><table><tr><td>1</table></body></html>"],
  ["pdf", pdf(["words of a page"])],
  ["jsonl", '{"id":1,"text":"words"}\n{"id":2,"text":"more"}\n'],
  ["csv", 'a,b\n1,"two, or more"\n3,4\n'],
  ["ts", "/** Words. */\nexport class A {\n  method(): void {\n    call();\n  }\n}\n"],
  ["py", "class A:\n    def method(self):\n        return 1\n"],
  ["rs", "impl A { fn method(&self) -> u8 { 1 } }\n"],
  ["txt", "Just words.\n\nAnd others."],
];

/** Ordinary files of which some bytes were changed, removed or doubled. */
function* mutations(count: number): Generator<[string, Fate, Content]> {
  for (let seed = 0; seed < count; seed++) {
    const [ending, content] = SEEDS[seed % SEEDS.length] ?? ["txt", ""];
    const bytes = Buffer.from(content as Uint8Array); // both kinds can be copied
    const chance = noise(16, seed);
    const at = chance.readUInt32LE(0) % bytes.length;
    const length = (chance[4] ?? 0) % 16;
    const kind = (chance[5] ?? 0) % 4;
    const changed =
      kind === 0
        ? bytes
        : kind === 1
          ? Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)])
          : kind === 2
            ? Buffer.concat([bytes.subarray(0, at), chance.subarray(0, length), bytes.subarray(at)])
            : Buffer.concat([bytes.subarray(0, at), bytes, bytes.subarray(at)]);
    yield [`mutated/${seed >> 8}/${seed}.${ending}`, kind === 0 ? "stored" : "either", changed];
  }
}

/** Bytes that look like chance, the same for the same seed. */
function noise(length: number, seed: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = seed * 2654435761 + 1;
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[at] = state >>> 24;
  }
  return bytes;
}
