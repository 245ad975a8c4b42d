/** CSV and TSV: a document for each row below the one of the columns' names. */
import { CsvError, parse } from "csv-parse";
import { EngineError } from "#base";
import type { FileContent, Reader } from "./reader.ts";
import { type Row, RowNames, rowDocument } from "./row-document.ts";
import { decodeText } from "./text-bytes.ts";

/** Longest row, in characters: a quote that is never closed would take the rest of the file. */
const ROW_LENGTH_MAX = 2 ** 20;
/** Characters of the text that are given to the parser at once. */
const PART_LENGTH = 2 ** 16;

/** Reads tables whose cells are separated by a comma, semicolon, tab or bar. */
export const csvReader: Reader = {
  name: "csv",
  endings: [".csv", ".tsv"],
  async *read(file: FileContent) {
    const { text } = decodeText(file.bytes, file.id);
    const names = new RowNames(file.id);
    for await (const row of rowsOf(text, file.id)) yield rowDocument(row, names);
  },
};

/** What the parser gives for a row, with the options below. */
interface ParsedRow {
  readonly record: readonly string[];
  /** `lines`: up to its end, this included. */
  readonly info: { readonly lines: number };
}

async function* rowsOf(text: string, fileId: string): AsyncGenerator<Row> {
  const parser = parse({
    delimiter: delimiterOf(text),
    record_delimiter: ["\r\n", "\n", "\r"],
    ...{ info: true, relax_column_count: true, relax_quotes: true, skip_empty_lines: true },
    max_record_size: ROW_LENGTH_MAX,
  });
  void feed(parser, text);
  let columns: readonly string[] | null = null;
  try {
    for await (const { record, info } of parser as AsyncIterable<ParsedRow>) {
      const firstLine = info.lines - record.join("").split("\n").length + 1;
      if (columns === null) columns = columnsOf(record);
      else yield rowFrom(columns, record, firstLine, info.lines);
    }
  } catch (cause) {
    if (!(cause instanceof CsvError)) throw cause;
    const message = `Cannot read ${JSON.stringify(fileId)}: it must be a table, ${cause.message}`;
    throw new EngineError("INVALID_ARGUMENT", message, { cause });
  }
}

async function feed(parser: ReturnType<typeof parse>, text: string): Promise<void> {
  for (let at = 0; at < text.length && !parser.destroyed; at += PART_LENGTH) {
    const hasRoom = parser.write(text.slice(at, at + PART_LENGTH));
    if (hasRoom) continue;
    await new Promise<void>((resolve) => {
      parser.once("drain", resolve);
      parser.once("close", resolve);
    });
  }
  if (!parser.destroyed) parser.end();
}

/** The separator that is most frequent in the first line. */
function delimiterOf(text: string): string {
  const end = text.indexOf("\n");
  const first = text.slice(0, end === -1 ? ROW_LENGTH_MAX : end);
  const count = (mark: string) => first.split(mark).length;
  return [",", ";", "\t", "|"].reduce((best, mark) => (count(mark) > count(best) ? mark : best));
}

/** Names of columns, each its own. */
function columnsOf(record: readonly string[]): string[] {
  const taken = new Set<string>();
  return record.map((cell, at) => {
    const own = cell.trim() || `column_${at + 1}`;
    const name = taken.has(own) ? `${own}_${at + 1}` : own;
    taken.add(name);
    return name;
  });
}

function rowFrom(
  columns: readonly string[],
  record: readonly string[],
  firstLine: number,
  lastLine: number,
): Row {
  const cells = record.map((cell, at) => [columns[at] ?? `column_${at + 1}`, cell] as const);
  const fields = Object.fromEntries(cells);
  return { fields, source: JSON.stringify(cells), firstLine, lastLine };
}
