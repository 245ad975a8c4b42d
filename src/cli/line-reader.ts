/** Lines of a file or pipe that somebody else wrote. */

/** A line, or why it is none that can be used. Numbers begin at 1. */
export type InputLine =
  | { readonly number: number; readonly text: string }
  | { readonly number: number; readonly problem: string };

/** As long as the longest request body that a server takes by default. */
export const LINE_BYTES_MAX: number = 16 * 2 ** 20;

const NEWLINE = 0x0a;

/**
 * Lines of UTF-8 without their ends; `\r\n` ends one, too. One that is too long or no UTF-8 is told
 * in its place and costs no more memory than `LINE_BYTES_MAX`; the next one is read as if it had
 * not been.
 */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array | string>,
): AsyncGenerator<InputLine> {
  const line = new LineBytes();
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk);
    let start = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      line.add(bytes.subarray(start, end));
      yield line.take();
      start = end + 1;
    }
    line.add(bytes.subarray(start));
  }
  if (!line.isEmpty) yield line.take();
}

/** What came of a line so far. */
class LineBytes {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  #parts: Uint8Array[] = [];
  #sizeBytes = 0;
  #number = 0;

  get isEmpty(): boolean {
    return this.#sizeBytes === 0;
  }

  add(part: Uint8Array): void {
    this.#sizeBytes += part.length;
    if (this.#sizeBytes > LINE_BYTES_MAX) this.#parts = [];
    else this.#parts.push(part);
  }

  take(): InputLine {
    const parts = this.#parts;
    const sizeBytes = this.#sizeBytes;
    this.#parts = [];
    this.#sizeBytes = 0;
    const number = ++this.#number;
    if (sizeBytes > LINE_BYTES_MAX) {
      const problem = `wanted a line of at most ${LINE_BYTES_MAX} bytes, this one has ${sizeBytes}`;
      return { number, problem };
    }
    try {
      return { number, text: this.#decoder.decode(Buffer.concat(parts)).replace(/\r$/, "") };
    } catch {
      return { number, problem: "wanted UTF-8, this line has other bytes" };
    }
  }
}
