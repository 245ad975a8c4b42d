/** JSON lines: a document for each row. */
import { isPlainObject } from "#base";
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
      const row = rowOf(source, line, file.id);
      yield "problem" in row ? row : rowDocument(row, names);
    }
  },
};

function rowOf(source: string, line: number, fileId: string): Row | ReadProblem {
  const place = { source, firstLine: line, lastLine: line };
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch {
    value = undefined;
  }
  if (typeof value === "string") return { ...place, fields: { text: value } };
  if (isPlainObject(value)) return { ...place, fields: value };
  const shown = JSON.stringify(source.slice(0, 80));
  const wanted = "each line must be a JSON object or string, current value is";
  const problem = `Cannot read line ${line} of ${JSON.stringify(fileId)}: ${wanted} ${shown}`;
  return { id: `${fileId}#line-${line}`, problem };
}
