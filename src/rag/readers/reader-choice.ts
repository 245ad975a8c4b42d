/** Which reader a file has: by the end of its name, its media type, or its first bytes. */
import { basename, extname } from "node:path/posix";
import { EngineError } from "#base";
import { CODE_LANGUAGES } from "./code-languages.ts";
import type { Reader } from "./reader.ts";
import { textReader } from "./text-reader.ts";

/** A kind of files whose reader's code is loaded when the first one is read. */
interface Kind {
  readonly endings: readonly string[];
  readonly mediaTypes: readonly string[];
  readonly load: () => Promise<Reader>;
}

const KINDS: readonly Kind[] = [
  {
    endings: [".md", ".markdown", ".mdx"],
    mediaTypes: ["text/markdown"],
    load: async () => (await import("./markdown-reader.ts")).markdownReader,
  },
  {
    endings: [".html", ".htm", ".xhtml"],
    mediaTypes: ["text/html", "application/xhtml+xml"],
    load: async () => (await import("./html-reader.ts")).htmlReader,
  },
  {
    endings: [".pdf"],
    mediaTypes: ["application/pdf"],
    load: async () => (await import("./pdf-reader.ts")).pdfReader,
  },
  {
    endings: [".jsonl", ".ndjson"],
    mediaTypes: ["application/jsonl", "application/x-ndjson"],
    load: async () => (await import("./json-lines-reader.ts")).jsonLinesReader,
  },
  {
    endings: [".csv", ".tsv"],
    mediaTypes: ["text/csv", "text/tab-separated-values"],
    load: async () => (await import("./csv-reader.ts")).csvReader,
  },
  {
    endings: CODE_LANGUAGES.flatMap(({ endings }) => endings),
    mediaTypes: [],
    load: async () => (await import("./code-reader.ts")).codeReader,
  },
  {
    endings: textReader.endings,
    mediaTypes: ["text/plain", "application/json"],
    load: async () => textReader,
  },
];

/**
 * The reader of a file. One of another ending is looked at: it may be a PDF, HTML or text, which
 * the text reader refuses if it is not.
 */
export async function readerOf(
  name: string,
  mediaType: string | null,
  bytes: Uint8Array,
): Promise<Reader> {
  const type = mediaType?.split(";")[0]?.trim().toLowerCase() ?? null;
  const ending = extname(basename(name.toLowerCase()));
  const kind =
    KINDS.find(({ mediaTypes }) => type !== null && mediaTypes.includes(type)) ??
    KINDS.find(({ endings }) => endings.includes(ending)) ??
    KINDS.find(({ mediaTypes }) => mediaTypes.includes(lookedAt(bytes)));
  if (kind === undefined) {
    const message = `Cannot read ${JSON.stringify(name)}: its kind must be known, it is ${ending}`;
    throw new EngineError("INVALID_ARGUMENT", message);
  }
  return kind.load();
}

function lookedAt(bytes: Uint8Array): string {
  const start = new TextDecoder("latin1").decode(bytes.subarray(0, 1024)).trimStart();
  if (start.startsWith("%PDF-")) return "application/pdf";
  return /^(<!doctype html|<html)\b/i.test(start) ? "text/html" : "text/plain";
}
