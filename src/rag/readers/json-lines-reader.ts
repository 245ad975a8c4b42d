/** JSON lines: a document for each row. */
import { isPlainObject } from "#base";
import type { SourceDocument } from "#rag/texts";
import type { FileContent, Reader, ReadProblem } from "./reader.ts";
import { type Row, RowNames, rowDocument } from "./row-document.ts";
import { decodeText } from "./text-bytes.ts";

/** Reads rows of objects, or of strings; other rows are problems, and the next ones are read. */
export const jsonLinesReader: Reader = {
  name: "jsonl",
  endings: [".jsonl", ".ndjson"],
  async *read(file: FileContent) {
    const { text } = decodeText(file.bytes, file.id);
    const names = new RowNames(file.id);
    let line = 0;
    for (let at = 0; at < text.length; ) {
      const newline = text.indexOf("\n", at);
      const end = newline === -1 ? text.length : newline;
      const source = text.slice(at, end).trim();
      at = end + 1;
      line++;
      if (source === "") continue;
      yield contentOf(source, line, file.id, names);
    }
  },
};

function contentOf(
  source: string,
  line: number,
  fileId: string,
  names: RowNames,
): SourceDocument | ReadProblem {
  try {
    const fields = fieldsOf(JSON.parse(source));
    const row: Row | null = fields && { fields, source, firstLine: line, lastLine: line };
    if (row !== null) return rowDocument(row, names);
  } catch {
    // It is no JSON, or nested too deeply to be written again: a problem of this row alone.
  }
  const shown = JSON.stringify(source.slice(0, 80));
  const wanted = "each line must be a JSON object or string, current value is";
  const problem = `Cannot read line ${line} of ${JSON.stringify(fileId)}: ${wanted} ${shown}`;
  return { id: `${fileId}#line-${line}`, problem };
}

function fieldsOf(value: unknown): Row["fields"] | null {
  if (typeof value === "string") return { text: value };
  return isPlainObject(value) ? value : null;
}
