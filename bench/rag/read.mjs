/**
 * How fast documents are read and cut, by kind.
 *
 *   node bench/rag/read.mjs [--mb 8] [--out FILE]
 *
 * Per kind some MB of files of 64 KB: Markdown and code are this repository's own, the rest is made
 * of its words. `read` is one reading process, from bytes to sections in this process; `cut` is the
 * chunker at 384 tokens with a count of tokens that costs nothing. An embedder's own count and its
 * vectors come on top; the start of the process does not count. Median of three.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { deflateSync } from "node:zlib";
import { cutDocument } from "../../dist/rag/chunks/index.js";
import { ReaderProcess } from "../../dist/rag/readers/index.js";
import { describeMachine, median } from "../machine.mjs";

const { values } = parseArgs({
  options: {
    mb: { type: "string", default: "8" },
    out: { type: "string" },
    help: { type: "boolean", short: "h" },
  },
});
if (values.help) {
  process.stdout.write(readFileSync(fileURLToPath(import.meta.url), "utf8").split("*/")[0] ?? "");
  process.exit(0);
}
const MB = 1e6;
const FILE_BYTES = 64_000;
const RUNS = 3;
const bytesWanted = Number(values.mb) * MB;
if (!(bytesWanted > 0)) throw new Error("wanted a positive number of --mb");

const root = fileURLToPath(new URL("../..", import.meta.url));
const markdown = textBelow("docs", ".md") + readFileSync(join(root, "ARCHITECTURE.md"), "utf8");
const code = textBelow("src", ".ts");
const words = markdown.match(/[A-Za-z]{2,12}/g) ?? [];

/** All files of an ending below a folder, one after the other. */
function textBelow(folder, ending) {
  const names = readdirSync(join(root, folder), { recursive: true });
  const own = names.filter((name) => String(name).endsWith(ending)).sort();
  return own.map((name) => readFileSync(join(root, folder, String(name)), "utf8")).join("\n");
}

/** Sentences of some bytes, beginning at another word for each file. */
function prose(file, bytes) {
  const sentences = [];
  for (let at = file * 977, length = 0; length < bytes; at += 11) {
    const own = Array.from({ length: 11 }, (_, n) => words[(at + n) % words.length]);
    const sentence = `${own.join(" ")}. `;
    sentences.push(at % 5 === 0 ? `${sentence}\n\n` : sentence);
    length += sentence.length;
  }
  return sentences.join("");
}

/** A stretch of a text that is repeated as often as needed. */
function stretch(text, file) {
  const at = (file * FILE_BYTES) % Math.max(1, text.length - FILE_BYTES);
  return text.slice(at, at + FILE_BYTES);
}

function html(file) {
  const parts = prose(file, FILE_BYTES * 0.8).split("\n\n");
  const body = parts.map((part, at) => `<h2>Part ${at}</h2>\n<p class="text">${part}</p>`);
  const head = `<head><title>${file}</title></head>`;
  return `<!DOCTYPE html><html>${head}<body>${body.join("\n")}</body></html>`;
}

function jsonLines(file) {
  const rows = prose(file, FILE_BYTES * 0.9).split("\n\n");
  return rows.map((text, id) => JSON.stringify({ id, text })).join("\n");
}

function csv(file) {
  const rows = prose(file, FILE_BYTES * 0.9).split("\n\n");
  return `id,note\n${rows.map((text, id) => `${id},"${text}"`).join("\n")}\n`;
}

/** A PDF of pages of some 3 KB, with lines as of a printed page. */
function pdf(file) {
  const text = prose(file, FILE_BYTES);
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "",
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
  ];
  const fonts = "/Resources << /Font << /F1 3 0 R >> >>";
  const kids = [];
  for (let at = 0; at < text.length; at += 3000) {
    const lines =
      text
        .slice(at, at + 3000)
        .replaceAll("\n", " ")
        .match(/.{1,80}/g) ?? [];
    const shown = lines.map((line) => `(${line}) Tj 0 -12 Td`).join("\n");
    const content = deflateSync(`BT /F1 10 Tf 50 780 Td\n${shown}\nET`).toString("latin1");
    const place = objects.length + 1;
    kids.push(`${place} 0 R`);
    objects.push(
      `<< /Type /Page /Parent 2 0 R /Contents ${place + 1} 0 R ${fonts} >>`,
      `<< /Length ${content.length} /Filter /FlateDecode >>\nstream\n${content}\nendstream`,
    );
  }
  const box = "/MediaBox [0 0 600 800]";
  objects[1] = `<< /Type /Pages /Kids [${kids.join(" ")}] /Count ${kids.length} ${box} >>`;
  return pdfText(objects);
}

function pdfText(objects) {
  let text = "%PDF-1.4\n";
  const places = objects.map((object, at) => {
    const place = text.length;
    text += `${at + 1} 0 obj\n${object}\nendobj\n`;
    return place;
  });
  const rows = places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("");
  const size = objects.length + 1;
  const end = `trailer\n<< /Size ${size} /Root 1 0 R >>\nstartxref\n${text.length}\n%%EOF`;
  return Buffer.from(`${text}xref\n0 ${size}\n0000000000 65535 f \n${rows}${end}`, "latin1");
}

/** Per kind: the ending of its files, and one of them. */
const KINDS = {
  text: ["txt", (file) => prose(file, FILE_BYTES)],
  markdown: ["md", (file) => stretch(markdown, file)],
  html: ["html", html],
  pdf: ["pdf", pdf],
  jsonl: ["jsonl", jsonLines],
  csv: ["csv", csv],
  code: ["ts", (file) => stretch(code, file)],
};

const countTokens = async (texts) => texts.map((text) => 2 + Math.ceil(text.length / 4));
const limits = { chunkTokens: 384, overlapTokens: 48 };

async function readAll(reader, files) {
  const documents = [];
  for (const [name, bytes] of files) {
    const job = { id: name, name, path: null, bytes, mediaType: null, bytesMax: 2 ** 28 };
    for await (const one of reader.read(job, () => true)) documents.push(one);
  }
  return documents;
}

async function measured(work) {
  const started = performance.now();
  const result = await work();
  return { result, seconds: (performance.now() - started) / 1000 };
}

async function measureKind([ending, make]) {
  const files = [];
  for (let bytes = 0, file = 0; bytes < bytesWanted; file++) {
    const content = Buffer.from(make(file));
    files.push([`${file}.${ending}`, content]);
    bytes += content.length;
  }
  const reader = new ReaderProcess({ seconds: 600, memoryBytes: 2 ** 31 });
  await readAll(reader, files.slice(0, 1));
  const reads = [];
  const cuts = [];
  let chunks = 0;
  for (let run = 0; run < RUNS; run++) {
    const { result: documents, seconds } = await measured(() => readAll(reader, files));
    reads.push(seconds);
    const cut = await measured(async () => {
      let count = 0;
      for (const document of documents)
        count += (await cutDocument(document, limits, countTokens)).length;
      return count;
    });
    cuts.push(cut.seconds);
    chunks = cut.result;
  }
  reader.close();
  const megabytes = files.reduce((sum, [, { length }]) => sum + length, 0) / MB;
  const speeds = { readMBps: megabytes / median(reads), cutMBps: megabytes / median(cuts) };
  return { files: files.length, megabytes, chunks, ...speeds };
}

const rows = {};
for (const [kind, how] of Object.entries(KINDS)) {
  rows[kind] = await measureKind(how);
  const { files, megabytes, chunks, readMBps, cutMBps } = rows[kind];
  process.stdout.write(
    `${kind.padEnd(9)} ${files} files, ${megabytes.toFixed(1)} MB, ${chunks} chunks: ` +
      `read ${readMBps.toFixed(1)} MB/s, cut ${cutMBps.toFixed(1)} MB/s\n`,
  );
}
if (values.out !== undefined) {
  const command = `node bench/rag/read.mjs --mb ${values.mb}`;
  const result = { benchmark: "rag-read", command, rows };
  writeFileSync(
    values.out,
    `${JSON.stringify({ ...result, machine: describeMachine() }, null, 2)}\n`,
  );
}
