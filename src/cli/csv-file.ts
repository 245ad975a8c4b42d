/** The file of `--csv`: rows are written as they come about, so that any number of them fits. */
import { closeSync, openSync, writeFileSync } from "node:fs";
import { fileProblem } from "./file-problem.ts";

/** Characters that are gathered before they are written. */
const PART_CHARACTERS = 64 * 1024;

/** A cell; null is empty. Numbers have three decimals at most. */
export type CsvCell = string | number | null;

/** A table with a line of names and one line for each row (RFC 4180, lines end in a line feed). */
export class CsvFile {
  readonly #path: string;
  readonly #file: number;
  #waiting = "";

  private constructor(path: string, file: number) {
    this.#path = path;
    this.#file = file;
  }

  /** Creates or empties the file. Throws IO where it cannot be written. */
  static open(path: string, columns: readonly string[]): CsvFile {
    const csv = new CsvFile(
      path,
      writing(path, () => openSync(path, "w")),
    );
    csv.write(columns);
    return csv;
  }

  /** Appends a row: its cells are in the order of the columns. Throws IO, as on a full disk. */
  write(cells: readonly CsvCell[]): void {
    this.#waiting += `${cells.map(cellText).join(",")}\n`;
    if (this.#waiting.length >= PART_CHARACTERS) this.#flush();
  }

  /** Writes the rest, unless that fails too, and closes the file. To be called once. */
  close(): void {
    try {
      this.#flush();
    } finally {
      closeSync(this.#file);
    }
  }

  #flush(): void {
    const text = this.#waiting;
    this.#waiting = "";
    // Appends: the place in an open file moves on with each part.
    writing(this.#path, () => writeFileSync(this.#file, text));
  }
}

function cellText(cell: CsvCell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return String(Math.round(cell * 1000) / 1000);
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

function writing<Result>(file: string, action: () => Result): Result {
  try {
    return action();
  } catch (cause) {
    const wanted = "for --csv a path in a folder that is there and may be written";
    throw fileProblem({ action: "write", file, wanted, cause });
  }
}
